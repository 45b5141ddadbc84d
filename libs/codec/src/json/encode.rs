//! Encodes structs and values as the JSON bytes that Go's encoder writes.

use std::borrow::Cow;

use oarlock_schema::{FieldId, Shape, Struct, Value};

use super::words;

/// The JSON bytes of an object, and the position for its resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes, without a line break at the end.
    pub bytes: Vec<u8>,
    /// The position in `bytes` for `"resourceVersion":"N",`; `None` when the metadata has a resourceVersion already, or no field after the position.
    pub splice: Option<usize>,
}

/// Encodes an object in declaration order, as Go does.
#[must_use]
pub fn encode(root: &Struct) -> Encoded {
    let mut bytes = Vec::with_capacity(1024);
    let splice = encode_into(root, &mut bytes);
    Encoded { bytes, splice }
}

/// Appends an object's JSON and returns the position of the resourceVersion in `out`.
pub fn encode_into(root: &Struct, out: &mut Vec<u8>) -> Option<usize> {
    let mut splice = None;
    let ty = root.ty();
    out.push(b'{');
    let mut comma = false;
    for (id, value) in root.entries() {
        let Some(def) = ty.def(*id) else { continue };
        if std::mem::replace(&mut comma, true) {
            out.push(b',');
        }
        out.extend_from_slice(def.prefix.as_bytes());
        match value {
            Value::Struct(meta) if def.name == "metadata" => splice = metadata(meta, out),
            _ => field::<true>(&def.shape, value, out),
        }
    }
    out.push(b'}');
    splice
}

fn metadata(node: &Struct, out: &mut Vec<u8>) -> Option<usize> {
    let version = node.ty().field("resourceVersion")?.0;
    let mut splice = None;
    structure::<true>(node, out, |id, at| {
        if id >= version && splice.is_none() {
            splice = Some((id, at));
        }
    });
    splice.and_then(|(id, at)| (id != version).then_some(at))
}

/// Appends any value. A text in a generic value is always written as a JSON text; field sets are embedded only below their struct.
pub fn encode_value(value: &Value, out: &mut Vec<u8>) {
    put::<true>(value, out);
}

/// Appends any value like [`encode_value`], but without the escapes for HTML: the form in which embedded JSON is stored.
pub(crate) fn encode_raw(value: &Value, out: &mut Vec<u8>) {
    put::<false>(value, out);
}

fn put<const HTML: bool>(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
        Value::Number(text) => out.extend_from_slice(text.as_bytes()),
        Value::Str(text) => string::<HTML>(text, out),
        Value::Struct(node) => structure::<HTML>(node, out, |_, _| {}),
        Value::List(items) => {
            out.push(b'[');
            let mut comma = false;
            for item in items {
                if std::mem::replace(&mut comma, true) {
                    out.push(b',');
                }
                put::<HTML>(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.push(b'{');
            let mut comma = false;
            for (key, item) in map.entries() {
                if std::mem::replace(&mut comma, true) {
                    out.push(b',');
                }
                string::<HTML>(key, out);
                out.push(b':');
                put::<HTML>(item, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends a struct. `met` is called with each field's id and start position.
fn structure<const HTML: bool>(node: &Struct, out: &mut Vec<u8>, mut met: impl FnMut(FieldId, usize)) {
    let ty = node.ty();
    out.push(b'{');
    let mut comma = false;
    for (id, value) in node.entries() {
        let Some(def) = ty.def(*id) else { continue };
        if std::mem::replace(&mut comma, true) {
            out.push(b',');
        }
        met(*id, out.len());
        out.extend_from_slice(def.prefix.as_bytes());
        field::<HTML>(&def.shape, value, out);
    }
    out.push(b'}');
}

#[inline]
fn field<const HTML: bool>(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    match (shape, value) {
        (Shape::FieldsV1, Value::Str(json)) => raw(json.as_bytes(), out),
        _ => put::<HTML>(value, out),
    }
}

/// The first byte of U+2028 and U+2029, the two separators that Go escapes.
const SEPARATOR: u8 = 0xe2;

/// Whether Go may escape a byte although JSON allows it.
const fn is_foreign(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | SEPARATOR)
}

/// Returns the index of the first byte that Go may escape in JSON text, where quotes and backslashes are in place.
fn foreign(bytes: &[u8]) -> Option<usize> {
    let find = |word| {
        let angles = words::equal_but(word, b'>', b'>' ^ b'<');
        angles | words::equal(word, b'&') | words::equal(word, SEPARATOR)
    };
    words::position(bytes, find, is_foreign)
}

/// The bytes of a text that Go writes unescaped.
const PLAIN: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        if byte < 0x20 || matches!(byte as u8, b'"' | b'\\') || is_foreign(byte as u8) {
            table[byte] = false;
        }
        byte += 1;
    }
    table
};

/// Returns the index of the first byte of a text that Go may escape. Most texts are too short for a search by words.
fn special(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| !PLAIN.get(usize::from(*b)).copied().unwrap_or(false))
}

/// Appends a text in quotes, escaped as Go does, with or without the escapes for HTML.
fn string<const HTML: bool>(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = special(rest) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = tail.split_first() else { break };
        rest = after;
        match *byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            SEPARATOR => rest = separator(after, out),
            b'<' | b'>' | b'&' if !HTML => out.push(*byte),
            byte => unicode(byte, out),
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Handles the bytes after [`SEPARATOR`]: writes U+2028 and U+2029 escaped, anything else unchanged, and returns the remaining bytes.
fn separator<'a>(after: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    match after {
        [0x80, last @ (0xa8 | 0xa9), rest @ ..] => {
            out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
            rest
        }
        _ => {
            out.push(SEPARATOR);
            after
        }
    }
}

fn unicode(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| HEX.get(usize::from(n & 15)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
}

/// Returns JSON text with the escapes that encoding adds, so that an object is the same before and after encoding.
pub(crate) fn escaped(text: Cow<'_, str>) -> Cow<'_, str> {
    if foreign(text.as_bytes()).is_none() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    raw(text.as_bytes(), &mut out);
    String::from_utf8(out).map_or(text, Cow::Owned)
}

/// Appends embedded JSON text unchanged except for the characters that Go escapes.
fn raw(mut rest: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = foreign(rest) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = tail.split_first() else { break };
        rest = after;
        if *byte == SEPARATOR {
            rest = separator(after, out);
        } else {
            unicode(*byte, out);
        }
    }
    out.extend_from_slice(rest);
}

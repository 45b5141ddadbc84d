//! From YAML text to a generic value, and from there through the schema.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use oarlock_meta::quote::quote;
use oarlock_schema::{Map, Obj, Str, TypeRef, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use thin_vec::ThinVec;

use super::resolve;
use crate::base64;
use crate::error::{DecodeError, Finding, FindingKind};
use crate::json::{self, utf8};
use crate::tree;
use crate::walk::{Decoded, Keys, MAX_DEPTH, Mode};

/// How many values anchors and aliases may copy in one document. Manifests copy a few dozen; a bomb wants billions.
const MAX_COPIES: usize = 200_000;

/// Decodes an object of type `ty` from the first document of a YAML text.
///
/// # Errors
/// [`DecodeError::Kind`] when the text is no YAML (upstream turns it into JSON before it looks for the kind), else as the JSON
/// decoder.
pub fn decode(bytes: &[u8], ty: TypeRef, mode: Mode) -> Result<Decoded<Obj>, DecodeError> {
    let generic = decode_value(bytes, mode)?;
    let mut typed = tree::type_value(&generic.value, ty, mode)?;
    typed.findings.splice(0..0, generic.findings);
    Ok(typed)
}

/// Decodes the first document of a YAML text without a schema; no document is `null`. In [`Mode::Strict`] keys that stand
/// twice give one finding with go-yaml's text.
///
/// # Errors
/// [`DecodeError::Kind`] with go-yaml's prefix; the detail is our parser's.
pub fn decode_value(bytes: &[u8], mode: Mode) -> Result<Decoded<Value>, DecodeError> {
    if let Some(value) = plain_json(bytes) {
        return Ok(Decoded { value, findings: Vec::new() });
    }
    let text = utf8(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut reader = Reader { strict: mode == Mode::Strict, ..Reader::default() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| refuse(format!("line {}: {}", e.marker().line(), e.info())))?;
        if reader.event(event, span)? {
            break;
        }
    }
    let mut findings = Vec::new();
    if !reader.twice.is_empty() {
        let path = format!("yaml: unmarshal errors:{}", reader.twice);
        findings.push(Finding { kind: FindingKind::Text, path });
    }
    Ok(Decoded { value: reader.done.unwrap_or_default(), findings })
}

/// What clients send as YAML is mostly JSON, and read faster as such. Not what YAML refuses, or reads in another way: keys that
/// stand twice, halves of surrogate pairs, breaks and controls beyond ASCII.
fn plain_json(bytes: &[u8]) -> Option<Value> {
    let same =
        |pair: &[u8]| pair != b"\\u" && pair.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
    if bytes.first() != Some(&b'{') || !bytes.windows(2).all(same) {
        return None;
    }
    json::decode_value(bytes, Mode::Strict).ok().filter(|read| read.findings.is_empty()).map(|read| read.value)
}

fn refuse(why: impl std::fmt::Display) -> DecodeError {
    DecodeError::Kind(format!("yaml: {why}"))
}

#[derive(Default)]
struct Reader {
    strict: bool,
    open: Vec<Open>,
    /// Finished anchored values with their extents; `None` while one is open.
    anchors: BTreeMap<usize, Option<(Value, Extent)>>,
    copies: usize,
    /// Lines about keys that stand twice.
    twice: String,
    done: Option<Value>,
}

/// A list or map that has begun.
struct Open {
    node: Node,
    anchor: usize,
    /// Of what is inside so far, itself included.
    extent: Extent,
}

/// How much a value is.
#[derive(Clone, Copy)]
struct Extent {
    /// Values, itself included.
    size: usize,
    /// Lists and maps around its deepest value, itself included.
    depth: usize,
}

impl Extent {
    const SCALAR: Self = Self { size: 1, depth: 0 };
    const EMPTY: Self = Self { size: 1, depth: 1 };

    fn add(&mut self, inner: Self) {
        self.size += inner.size;
        self.depth = self.depth.max(1 + inner.depth);
    }
}

enum Node {
    List(ThinVec<Value>),
    Map { entries: ThinVec<(Str, Value)>, key: Option<Key>, merged: Vec<Value>, keys: Keys },
}

enum Key {
    /// With whether go-yaml shows it in quotes.
    Name(Str, bool),
    /// `<<`: the value's entries are added where the map has none of that name.
    Merge,
}

impl Reader {
    /// Takes one event; `true` when the first document is complete.
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<bool, DecodeError> {
        let line = span.start.line();
        match event {
            Event::DocumentEnd | Event::StreamEnd => return Ok(true),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
            Event::SequenceStart(anchor, _) => self.begin(Node::List(ThinVec::new()), anchor)?,
            Event::MappingStart(anchor, _) => {
                let node = Node::Map { entries: ThinVec::new(), key: None, merged: Vec::new(), keys: Keys::default() };
                self.begin(node, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(line)?,
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let merge = plain && tag.is_none() && text == "<<";
                if merge && self.wants_key() {
                    self.set_key(Key::Merge);
                    return Ok(false);
                }
                let value = scalar(&text, plain, tag.as_deref())?;
                if anchor != 0 {
                    self.anchors.insert(anchor, Some((value.clone(), Extent::SCALAR)));
                }
                self.put(value, Extent::SCALAR, line)?;
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(Some((value, extent))) => {
                    let extent = *extent;
                    self.copies += extent.size;
                    if self.copies > MAX_COPIES {
                        return Err(refuse("document contains excessive aliasing"));
                    }
                    // Aliases of values that hold aliases nest deeper than the text does.
                    if self.open.len() + extent.depth > MAX_DEPTH as usize {
                        return Err(refuse("exceeded max depth"));
                    }
                    let value = value.clone();
                    self.put(value, extent, line)?;
                }
                Some(None) => return Err(refuse("anchor value contains itself")),
                None => return Err(refuse("unknown anchor referenced")),
            },
        }
        Ok(false)
    }

    fn begin(&mut self, node: Node, anchor: usize) -> Result<(), DecodeError> {
        if self.open.len() >= MAX_DEPTH as usize {
            return Err(refuse("exceeded max depth"));
        }
        if self.wants_key() {
            return Err(refuse("invalid map key: a map or list cannot be a key"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.open.push(Open { node, anchor, extent: Extent::EMPTY });
        Ok(())
    }

    fn end(&mut self, line: usize) -> Result<(), DecodeError> {
        let Some(Open { node, anchor, extent }) = self.open.pop() else { return Ok(()) };
        let value = match node {
            Node::List(items) => Value::List(items),
            Node::Map { entries, merged, .. } => Value::Map(merge(entries, merged)?),
        };
        if anchor != 0 {
            self.copies += extent.size;
            if self.copies > MAX_COPIES {
                return Err(refuse("document contains excessive aliasing"));
            }
            self.anchors.insert(anchor, Some((value.clone(), extent)));
        }
        self.put(value, extent, line)
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { node: Node::Map { key: None, .. }, .. }))
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Open { node: Node::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(new);
        }
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, value: Value, extent: Extent, line: usize) -> Result<(), DecodeError> {
        if self.wants_key() {
            let quoted = matches!(value, Value::Str(_));
            let key = Key::Name(key_text(value)?, quoted);
            self.set_key(key);
            return Ok(());
        }
        let Some(open) = self.open.last_mut() else {
            self.done = Some(value);
            return Ok(());
        };
        open.extent.add(extent);
        match &mut open.node {
            Node::List(items) => items.push(value),
            Node::Map { entries, key, merged, keys } => match key.take() {
                Some(Key::Name(name, quoted)) => {
                    if self.strict && keys.again(entries, &name) {
                        let shown = if quoted { quote(&name) } else { name.to_string() };
                        // Writing to a String cannot fail.
                        let _ = write!(self.twice, "\n  line {line}: key {shown} already set in map");
                    }
                    entries.push((name, value));
                }
                Some(Key::Merge) => merged.push(value),
                None => {}
            },
        }
        Ok(())
    }
}

/// The entries, with those of merged maps where there is none of that name.
fn merge(entries: ThinVec<(Str, Value)>, merged: Vec<Value>) -> Result<Map, DecodeError> {
    if merged.is_empty() {
        return Ok(Map::from_entries(entries));
    }
    let mut maps = Vec::new();
    let mut add = |value: Value| match value {
        Value::Map(map) => {
            maps.push(map);
            Ok(())
        }
        _ => Err(refuse("map merge requires map or sequence of maps as the value")),
    };
    for value in merged {
        match value {
            Value::List(maps) => maps.into_iter().try_for_each(&mut add)?,
            value => add(value)?,
        }
    }
    // Earlier maps win over later ones, and the map's own entries over both; `from_entries` keeps the last.
    let merged = maps.iter().rev().flat_map(|map| map.entries().iter().cloned());
    Ok(Map::from_entries(merged.chain(entries).collect()))
}

fn key_text(value: Value) -> Result<Str, DecodeError> {
    match value {
        Value::Str(text) | Value::Number(text) => Ok(text),
        Value::Int(n) => Ok(Str::new(itoa::Buffer::new().format(n))),
        Value::Bool(b) => Ok(Str::const_new(if b { "true" } else { "false" })),
        _ => Err(DecodeError::Kind("unsupported map key of type: %!s(<nil>)".to_owned())),
    }
}

fn scalar(text: &str, plain: bool, tag: Option<&Tag>) -> Result<Value, DecodeError> {
    let core = tag.is_some_and(|tag| tag.is_yaml_core_schema() || tag.handle == "!!");
    let value = match tag {
        None if plain => resolve::plain(text),
        Some(tag) if core && tag.suffix == "binary" => {
            let bytes =
                base64::decode(text.as_bytes()).map_err(|_| refuse("!!binary value contains invalid base64 data"))?;
            Value::from(utf8(&bytes).into_owned())
        }
        Some(tag) if core && matches!(&*tag.suffix, "int" | "float" | "bool" | "null") => resolve::plain(text),
        _ => Value::from(text),
    };
    if let Value::Number(number) = &value
        && number.ends_with(['f', 'N'])
    {
        return Err(DecodeError::Kind(format!("json: unsupported value: {number}")));
    }
    Ok(value)
}

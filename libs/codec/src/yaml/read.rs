//! Reads YAML text into a generic value, which is then decoded by the schema.

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

/// The most values that anchors and aliases may copy in one document. Manifests copy a few dozen; an alias bomb copies billions.
const MAX_COPIES: usize = 200_000;

/// Decodes an object of type `ty` from the first document of a YAML text.
///
/// # Errors
/// [`DecodeError::Kind`] for invalid YAML (upstream converts to JSON before looking for the kind), else as the JSON decoder.
pub fn decode(bytes: &[u8], ty: TypeRef, mode: Mode) -> Result<Decoded<Obj>, DecodeError> {
    let generic = decode_value(bytes, mode)?;
    let mut typed = tree::type_value(&generic.value, ty, mode)?;
    typed.findings.splice(0..0, generic.findings);
    Ok(typed)
}

/// Decodes the first document of a YAML text without a schema; an empty text is `null`. In [`Mode::Strict`] all duplicate keys together give one finding with
/// go-yaml's text.
///
/// # Errors
/// [`DecodeError::Kind`] with go-yaml's prefix; the detail is that of our parser.
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
    if !reader.duplicate_keys.is_empty() {
        let path = format!("yaml: unmarshal errors:{}", reader.duplicate_keys);
        findings.push(Finding { kind: FindingKind::Text, path });
    }
    Ok(Decoded { value: reader.done.unwrap_or_default(), findings })
}

/// Reads a YAML text that is JSON with the JSON decoder, which is faster; most YAML bodies are JSON. `None` for JSON that YAML refuses or reads differently:
/// duplicate keys, lone surrogates, line breaks and control characters beyond ASCII.
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
    /// Finished anchored values with their extents; `None` for an unfinished one.
    anchors: BTreeMap<usize, Option<(Value, Extent)>>,
    copies: usize,
    /// Messages about duplicate keys, one a line.
    duplicate_keys: String,
    done: Option<Value>,
}

/// A list or map that is being read.
struct Open {
    node: Node,
    anchor: usize,
    /// The extent so far, including the list or map itself.
    extent: Extent,
}

/// The size and depth of a value.
#[derive(Clone, Copy)]
struct Extent {
    /// Number of values, including the value itself.
    size: usize,
    /// Number of lists and maps around the deepest value, including the value itself.
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
    /// A name, and whether go-yaml shows the name in quotes.
    Name(Str, bool),
    /// `<<`: adds the value's entries for names that the map lacks.
    Merge,
}

impl Reader {
    /// Handles one event; returns `true` when the first document is complete.
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
                    // Aliases of values that contain aliases nest deeper than the text.
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

    /// Adds a finished value to its list or map.
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
                    if self.strict && keys.is_repeat(entries, &name) {
                        let shown = if quoted { quote(&name) } else { name.to_string() };
                        // Writing to a String cannot fail.
                        let _ = write!(self.duplicate_keys, "\n  line {line}: key {shown} already set in map");
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

/// Returns the entries, with those of merged maps for missing names.
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
    // Earlier maps take precedence over later ones, and the map's own entries over both; `from_entries` keeps the last.
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

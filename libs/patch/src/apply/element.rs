//! Path elements: the steps of a path to a field, as `fieldsV1` writes them.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use oarlock_codec::{Mode, json};
use oarlock_meta::quote::quote;
use oarlock_schema::{FieldDef, Map, Str, Value};

/// One step of a path. Ordered as upstream orders the kinds: names, keys, values, positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A field or map entry: `f:name`.
    Field(Str),
    /// The list item with these key fields, sorted by name: `k:{"name":"a"}`.
    Key(Vec<(Str, Value)>),
    /// The item of a set: `v:"a"`.
    Value(Value),
    /// A list position: `i:3`. Never made by this crate, but other writers may send positions.
    Index(i64),
}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Compares two elements in the order of field sets and of `fieldsV1`.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b.iter());
                pairs
                    .map(|((name, value), (other, another))| name.cmp(other).then_with(|| compare(value, another)))
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    /// Reads an element from its text in `fieldsV1`; `None` for an invalid text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_at_checked(2)?;
        let value = || json::decode_value(rest.as_bytes(), Mode::Lenient).ok().map(|decoded| decoded.value);
        Some(match kind {
            "f:" => Self::Field(Str::new(rest)),
            "v:" => Self::Value(value()?),
            "i:" => Self::Index(rest.parse().ok()?),
            "k:" => {
                let Value::Map(map) = value()? else { return None };
                Self::Key(map.entries().to_vec())
            }
            _ => return None,
        })
    }

    /// Appends the element as a quoted JSON text, for use as the key of an object.
    pub(super) fn write_key(&self, out: &mut Vec<u8>) {
        match self {
            Self::Field(name) => write_field_key(name, out),
            Self::Key(fields) if fields.iter().all(|(name, value)| plain(name) && plain_value(value)) => {
                out.extend_from_slice(b"\"k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    out.extend_from_slice(if i > 0 { b",\\\"" } else { b"\\\"" });
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\\\":");
                    write_plain(value, out);
                }
                out.extend_from_slice(b"}\"");
            }
            Self::Value(value) if plain_value(value) => {
                out.extend_from_slice(b"\"v:");
                write_plain(value, out);
                out.push(b'"');
            }
            _ => {
                let text = self.text();
                json::encode_value(&Value::Str(text), out);
            }
        }
    }

    /// Returns the unquoted text in `fieldsV1`.
    fn text(&self) -> Str {
        let mut out = Vec::with_capacity(32);
        match self {
            Self::Field(name) => return compact_str::format_compact!("f:{name}"),
            Self::Index(at) => return compact_str::format_compact!("i:{at}"),
            Self::Value(value) => {
                out.extend_from_slice(b"v:");
                json::encode_value(value, &mut out);
            }
            Self::Key(fields) => {
                out.extend_from_slice(b"k:");
                let map: Map = fields.iter().cloned().collect();
                json::encode_value(&Value::Map(map), &mut out);
            }
        }
        Str::from_utf8_lossy(&out)
    }
}

/// Whether a text needs no escapes in JSON, nor in JSON inside JSON.
fn plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/' | b'-' | b'_'))
}

fn plain_value(value: &Value) -> bool {
    match value {
        Value::Int(_) => true,
        Value::Str(text) => plain(text),
        _ => false,
    }
}

/// Appends a value without escapes as JSON inside a JSON text.
fn write_plain(value: &Value, out: &mut Vec<u8>) {
    if let Value::Str(text) = value {
        out.extend_from_slice(b"\\\"");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\\\"");
    } else {
        json::encode_value(value, out);
    }
}

/// Appends `"f:name":` for a declared field. No declared name needs escapes.
pub(super) fn write_declared_key(def: &FieldDef, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"f:");
    out.extend_from_slice(def.prefix.as_bytes().get(1..).unwrap_or_default());
}

/// Appends `"f:name"`.
pub(super) fn write_field_key(name: &str, out: &mut Vec<u8>) {
    if plain(name) {
        out.extend_from_slice(b"\"f:");
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    } else {
        json::encode_value(&Value::Str(compact_str::format_compact!("f:{name}")), out);
    }
}

/// Compares values of any kind in upstream's order: numbers, texts, booleans, lists, maps, null.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Int(_) | Value::Number(_) => 0,
        Value::Str(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) | Value::Struct(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Number(_), Value::Int(_) | Value::Number(_)) => number(a).total_cmp(&number(b)),
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let pairs = a.iter().zip(b.iter());
            pairs.map(|(a, b)| compare(a, b)).find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => {
            let pairs = a.iter().zip(b.iter());
            pairs
                .map(|((ka, a), (kb, b))| ka.cmp(kb).then_with(|| compare(a, b)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "upstream compares mixed numbers as floats")]
fn number(value: &Value) -> f64 {
    match value {
        Value::Int(n) => *n as f64,
        Value::Number(text) => text.parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// Prints `.name`, `[name="a"]`, `[="a"]` or `[3]`, the form in conflict messages.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_char('[')?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={}", if i > 0 { "," } else { "" }, shown(value))?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={}]", shown(value)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

/// Formats a value as upstream's paths do.
fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => quote(text),
        Value::Null => "null".to_owned(),
        other => {
            let mut out = Vec::new();
            json::encode_value(other, &mut out);
            String::from_utf8(out).unwrap_or_default()
        }
    }
}

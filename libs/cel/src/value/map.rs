//! Map values, and objects, which are maps to expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use oarlock_schema::{Map as TreeMap, Shape, Struct};

use super::{Text, Value};
use crate::error::EvalError;
use crate::limits;

/// A map of an object, or made by an expression.
#[derive(Clone, Debug)]
pub struct Map<'a>(Entries<'a>);

#[derive(Clone, Debug)]
enum Entries<'a> {
    Tree(&'a TreeMap),
    Struct(&'a Struct),
    Owned(Arc<Owned<'a>>),
}

#[derive(Debug)]
struct Owned<'a> {
    entries: BTreeMap<Key<'a>, Value<'a>>,
    depth: usize,
}

/// A key. Signed and unsigned keys with the same number are equal: `{1: 'a'}[1u]` is found.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// `true`, `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// Text.
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// Converts a value to a key; `None` for values that cannot be keys.
    #[must_use]
    pub fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(n) => Self::Int(*n),
            Value::Uint(n) => Self::Uint(*n),
            Value::String(text) => Self::String(text.clone()),
            #[expect(clippy::cast_possible_truncation, reason = "a whole double within the range of the type")]
            Value::Double(n) if n.fract() == 0.0 && n.abs() < 9e18 => Self::Int(*n as i64),
            _ => return None,
        })
    }

    /// Returns the key as a value.
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(n) => Value::Int(*n),
            Self::Uint(n) => Value::Uint(*n),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    fn number(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some((*n).into()),
            Self::Uint(n) => Some((*n).into()),
            _ => None,
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Bool(_) => 0,
            Self::Int(_) | Self::Uint(_) => 1,
            Self::String(_) => 2,
        };
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (a, b) => rank(a).cmp(&rank(b)).then_with(|| a.number().cmp(&b.number())),
        }
    }
}
impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Key<'_> {}

/// Prints the key's form in error texts.
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => b.fmt(f),
            Self::Int(n) => n.fmt(f),
            Self::Uint(n) => n.fmt(f),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl<'a> Map<'a> {
    /// Makes a map of an object's map.
    #[must_use]
    pub fn tree(map: &'a TreeMap) -> Self {
        Self(Entries::Tree(map))
    }

    /// Makes a map of the set fields of an object, or of a part of an object.
    #[must_use]
    pub fn object(node: &'a Struct) -> Self {
        Self(Entries::Struct(node))
    }

    /// Makes a map of values.
    ///
    /// # Errors
    /// When the nesting exceeds [`limits::VALUE_DEPTH`].
    pub fn new(entries: BTreeMap<Key<'a>, Value<'a>>) -> Result<Self, EvalError> {
        let depth = 1 + entries.values().map(Value::depth).max().unwrap_or(0);
        if depth > limits::VALUE_DEPTH {
            return Err(EvalError::failed("values are nested too deeply"));
        }
        Ok(Self(Entries::Owned(Arc::new(Owned { entries, depth }))))
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Tree(map) => map.len(),
            Entries::Struct(node) => node.entries().len(),
            Entries::Owned(owned) => owned.entries.len(),
        }
    }

    /// Whether the map has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a text key.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        match &self.0 {
            Entries::Tree(map) => map.get(name).map(Value::tree),
            Entries::Struct(node) => {
                let (id, def) = node.ty().field(name)?;
                node.field(id).map(|value| Value::field(&def.shape, value))
            }
            Entries::Owned(owned) => {
                // Shortens the lifetime of the keys, so that a key borrowed from `name` can be looked up.
                let entries: &BTreeMap<Key<'_>, Value<'a>> = &owned.entries;
                find(entries, name).cloned()
            }
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &Key<'a>) -> Option<Value<'a>> {
        match (key, &self.0) {
            (Key::String(text), _) => self.field(text),
            (key, Entries::Owned(owned)) => owned.entries.get(key).cloned(),
            _ => None,
        }
    }

    /// Returns the entries in a deterministic order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Key<'a>, Value<'a>)> + '_> {
        let text = |name: &'a str| Key::String(Text::Borrowed(name));
        match &self.0 {
            Entries::Tree(map) => Box::new(map.iter().map(move |(name, value)| (text(name), Value::tree(value)))),
            Entries::Struct(node) => {
                let field = move |(def, value): (&'static oarlock_schema::FieldDef, &'a oarlock_schema::Value)| {
                    let shape: &Shape = &def.shape;
                    (text(def.name), Value::field(shape, value))
                };
                Box::new(node.iter().map(field))
            }
            Entries::Owned(owned) => Box::new(owned.entries.iter().map(|(key, value)| (key.clone(), value.clone()))),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        match &self.0 {
            Entries::Owned(owned) => owned.depth,
            _ => 1,
        }
    }
}

fn find<'m, 'a>(entries: &'m BTreeMap<Key<'a>, Value<'a>>, name: &str) -> Option<&'m Value<'a>> {
    let entries: &'m BTreeMap<Key<'_>, Value<'a>> = entries;
    entries.get(&Key::String(Text::Owned(name.into())))
}

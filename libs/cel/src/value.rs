//! Values of literals, functions and variables during an evaluation.
//!
//! A value borrows from its object: texts, lists and maps of an object's tree are read in place, and only values that an expression creates are owned (and
//! shared, so that a clone is cheap).

mod compare;
mod list;
mod map;
mod node;
mod opaque;

use std::sync::Arc;

use jiff::civil::DateTime;
use oarlock_meta::GoDuration;

pub use compare::{compare, equal};
pub(crate) use compare::{equal_counted, sort_by};
pub use list::List;
pub use map::{Key, Map};
pub use opaque::{AccessQuery, AccessRequest, Authorizer, Cidr, Decision, NamedFormat, Opaque, Semver, Url};
pub(crate) use opaque::{Check, is_mapped, parse_ip};

use crate::types::Type;

/// A value of the language.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// An unsigned 64-bit integer.
    Uint(u64),
    /// IEEE double.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A moment between the years 1 and 9999, in UTC.
    Timestamp(DateTime),
    /// A span in nanoseconds.
    Duration(GoDuration),
    /// A list.
    List(List<'a>),
    /// A map, or an object.
    Map(Map<'a>),
    /// A type.
    Type(Type),
    /// An optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a type of Kubernetes' libraries.
    Opaque(Opaque),
}

/// Text of an object, or made by an expression.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Borrowed from an object.
    Borrowed(&'a str),
    /// Made by an expression.
    Owned(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(Text::Owned(text.into()))
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }
}
impl From<bool> for Value<'_> {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}
impl From<i64> for Value<'_> {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl<'a> Value<'a> {
    /// Converts a count to an int; a count out of range becomes the largest int.
    pub(crate) fn count(n: usize) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// Makes an optional with a value.
    #[must_use]
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Returns the type as far as the value itself shows the type; the content of lists and maps is not examined.
    #[must_use]
    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::type_of(Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(opaque) => Type::Opaque(opaque.type_name()),
        }
    }

    /// Returns the text; `None` for any other value.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the boolean; `None` for any other value.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns the nesting of lists, maps and optionals that expressions made. An object's tree counts as one level, since its decoder bounds its depth.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth(),
            Self::Map(map) => map.depth(),
            Self::Optional(Some(inner)) => 1 + inner.depth(),
            _ => 1,
        }
    }

    /// Returns the cost of visiting the value once: characters, bytes, items or entries.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            _ => 1,
        }
    }
}

//! Zero-copy typed views over the value tree: one type per schema type, one method per field, written by the build script.
//!
//! `core_v1::Pod::of(&obj)?.spec().containers()` reads without copying; `core_v1::PodMut` changes in place. A view of a struct
//! that is not there reads as Go's zero value, so chains need no unwrapping; fields that are pointers in Go give `Option`.

use std::marker::PhantomData;

use crate::value::{Map as MapNode, Str, Struct, Value};

/// Reads one node.
pub trait FromValue<'a>: Sized {
    /// What `value` means for this type; a node of another kind reads as zero.
    fn from_value(value: &'a Value) -> Self;
    /// What an absent node reads as.
    fn absent() -> Self;
}

/// A view over a struct of one type.
pub trait View<'a>: Sized + Copy {
    /// The schema type it reads.
    const TYPE: crate::TypeRef;
    /// A view of this node.
    fn new(node: &'a Struct) -> Self;
    /// The node, if there is one.
    fn node(self) -> Option<&'a Struct>;
    /// A view of this node, if it is of the view's type.
    fn of(node: &'a Struct) -> Option<Self> {
        std::ptr::eq(node.ty(), Self::TYPE).then(|| Self::new(node))
    }
    /// Whether the struct is there.
    fn exists(self) -> bool {
        self.node().is_some()
    }
}

/// A whole number or text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntOrStr<'a> {
    /// A number.
    Int(i64),
    /// A text, such as a port name or a percentage.
    Str(&'a str),
}

impl<'a> FromValue<'a> for &'a str {
    fn from_value(value: &'a Value) -> Self {
        value.as_str().unwrap_or("")
    }
    fn absent() -> Self {
        ""
    }
}
impl<'a> FromValue<'a> for i64 {
    fn from_value(value: &'a Value) -> Self {
        value.as_int().unwrap_or(0)
    }
    fn absent() -> Self {
        0
    }
}
impl<'a> FromValue<'a> for bool {
    fn from_value(value: &'a Value) -> Self {
        value.as_bool().unwrap_or(false)
    }
    fn absent() -> Self {
        false
    }
}
impl<'a> FromValue<'a> for f64 {
    fn from_value(value: &'a Value) -> Self {
        match value {
            #[expect(clippy::cast_precision_loss, reason = "JSON numbers are doubles")]
            Value::Int(n) => *n as f64,
            Value::Number(text) => text.parse().unwrap_or(0.0),
            _ => 0.0,
        }
    }
    fn absent() -> Self {
        0.0
    }
}
impl<'a> FromValue<'a> for IntOrStr<'a> {
    fn from_value(value: &'a Value) -> Self {
        match value {
            Value::Str(s) => Self::Str(s),
            other => Self::Int(other.as_int().unwrap_or(0)),
        }
    }
    fn absent() -> Self {
        Self::Int(0)
    }
}
impl<'a> FromValue<'a> for &'a Value {
    fn from_value(value: &'a Value) -> Self {
        value
    }
    fn absent() -> Self {
        &Value::Null
    }
}

/// A list field; absent reads as empty.
#[derive(Debug)]
pub struct List<'a, T> {
    items: &'a [Value],
    of: PhantomData<T>,
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for List<'_, T> {}

impl<'a, T: FromValue<'a>> List<'a, T> {
    /// The items.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator {
        self.items.iter().map(T::from_value)
    }
    /// Number of items.
    #[must_use]
    pub fn len(self) -> usize {
        self.items.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.items.is_empty()
    }
    /// The item at an index.
    #[must_use]
    pub fn get(self, index: usize) -> Option<T> {
        self.items.get(index).map(T::from_value)
    }
    /// The nodes.
    #[must_use]
    pub fn values(self) -> &'a [Value] {
        self.items
    }
}
impl<'a, T> FromValue<'a> for List<'a, T> {
    fn from_value(value: &'a Value) -> Self {
        Self { items: value.items(), of: PhantomData }
    }
    fn absent() -> Self {
        Self { items: &[], of: PhantomData }
    }
}

/// A map field; absent reads as empty.
#[derive(Debug)]
pub struct Map<'a, T> {
    entries: &'a [(Str, Value)],
    of: PhantomData<T>,
}

impl<T> Clone for Map<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Map<'_, T> {}

impl<'a, T: FromValue<'a>> Map<'a, T> {
    /// Entries sorted by key.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = (&'a str, T)> + ExactSizeIterator {
        self.entries.iter().map(|(k, v)| (k.as_str(), T::from_value(v)))
    }
    /// The value at a key.
    #[must_use]
    pub fn get(self, key: &str) -> Option<T> {
        let at = self.entries.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        self.entries.get(at).map(|(_, v)| T::from_value(v))
    }
    /// Number of entries.
    #[must_use]
    pub fn len(self) -> usize {
        self.entries.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.entries.is_empty()
    }
}
impl<'a, T> FromValue<'a> for Map<'a, T> {
    fn from_value(value: &'a Value) -> Self {
        Self { entries: value.as_map().map_or(&[], MapNode::entries), of: PhantomData }
    }
    fn absent() -> Self {
        Self { entries: &[], of: PhantomData }
    }
}

/// Reads a field of a struct that may be absent. For generated code.
#[inline]
pub(crate) fn read<'a, T: FromValue<'a>>(node: Option<&'a Struct>, id: u16) -> T {
    node.and_then(|n| n.field(crate::FieldId(id))).map_or_else(T::absent, T::from_value)
}

/// Reads a pointer field. For generated code.
#[inline]
pub(crate) fn read_pointer<'a, T: FromValue<'a>>(node: Option<&'a Struct>, id: u16) -> Option<T> {
    match node.and_then(|n| n.field(crate::FieldId(id))) {
        None | Some(Value::Null) => None,
        Some(value) => Some(T::from_value(value)),
    }
}

/// The list in a field, made if need be. For generated code.
pub(crate) fn list_mut(node: &mut Struct, id: u16) -> &mut thin_vec::ThinVec<Value> {
    let slot = node.entry(crate::FieldId(id), || Value::List(thin_vec::ThinVec::new()));
    if !matches!(slot, Value::List(_)) {
        *slot = Value::List(thin_vec::ThinVec::new());
    }
    match slot {
        Value::List(items) => items,
        _ => unreachable!("made a list just above"),
    }
}

/// The map in a field, made if need be. For generated code.
pub(crate) fn map_mut(node: &mut Struct, id: u16) -> &mut MapNode {
    let slot = node.entry(crate::FieldId(id), || Value::Map(MapNode::default()));
    if !matches!(slot, Value::Map(_)) {
        *slot = Value::Map(MapNode::default());
    }
    match slot {
        Value::Map(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

/// The struct in a field, made if need be. For generated code.
pub(crate) fn struct_mut(node: &mut Struct, id: u16, ty: crate::TypeRef) -> &mut Struct {
    let slot = node.entry(crate::FieldId(id), || Value::Struct(Struct::zero(ty)));
    if slot.as_struct().is_none() {
        *slot = Value::Struct(Struct::zero(ty));
    }
    match slot {
        Value::Struct(inner) => inner,
        _ => unreachable!("made a struct just above"),
    }
}

include!(concat!(env!("OUT_DIR"), "/views.rs"));

//! The value tree of a decoded object.
//!
//! A node is 24 bytes; texts up to 24 bytes are stored inline. Struct nodes are slices sorted by [`FieldId`] of a known [`TypeDef`](crate::TypeDef), so a field
//! lookup is a short search and encoding is one pass.

use compact_str::CompactString;
use thin_vec::ThinVec;

use crate::types::{FieldDef, FieldId, Shape, TypeRef};

/// Text of a node: inline up to 24 bytes.
pub type Str = CompactString;

/// One node of an object.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    /// JSON `null`; also Go's zero time.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, as its text.
    Number(Str),
    /// Text; also quantities, times, durations and base64 bytes, each in canonical form.
    Str(Str),
    /// A list.
    List(ThinVec<Value>),
    /// A struct of a known type.
    Struct(Struct),
    /// A map with text keys, sorted by key.
    Map(Map),
}

/// A struct node: fields sorted by id.
#[derive(Clone, PartialEq)]
pub struct Struct {
    ty: TypeRef,
    fields: ThinVec<(FieldId, Value)>,
}

/// A map node: entries sorted by key, as Go writes maps.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Map {
    entries: ThinVec<(Str, Value)>,
}

impl Value {
    /// Returns the text; `None` for any other node.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(s) => Some(s.as_str()),
            _ => None,
        }
    }

    /// Returns the whole number; `None` for any other node.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the boolean; `None` for any other node.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns the struct; `None` for any other node.
    #[must_use]
    pub fn as_struct(&self) -> Option<&Struct> {
        match self {
            Self::Struct(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the struct; `None` for any other node.
    pub fn as_struct_mut(&mut self) -> Option<&mut Struct> {
        match self {
            Self::Struct(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the items of a list; empty for any other node.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the map; `None` for any other node.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(m) => Some(m),
            _ => None,
        }
    }

    /// Whether the node is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns Go's zero value of a shape.
    #[must_use]
    pub fn zero(shape: &Shape) -> Self {
        match shape {
            Shape::Bool => Self::Bool(false),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Float64 => Self::Int(0),
            Shape::Str => Self::Str(Str::const_new("")),
            Shape::Quantity => Self::Str(Str::const_new("0")),
            Shape::Duration => Self::Str(Str::const_new("0s")),
            Shape::Struct(ty) => Self::Struct(Struct::zero(ty)),
            _ => Self::Null,
        }
    }

    /// Returns the child of a struct or map by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Struct(s) => s.get(name),
            Self::Map(m) => m.get(name),
            _ => None,
        }
    }

    /// Returns the node at a path of names; a path cannot address list items.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(Str::new(text))
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(Str::from(text))
    }
}
impl From<Str> for Value {
    fn from(text: Str) -> Self {
        Self::Str(text)
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}
impl From<i32> for Value {
    fn from(n: i32) -> Self {
        Self::Int(i64::from(n))
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}
impl From<Struct> for Value {
    fn from(s: Struct) -> Self {
        Self::Struct(s)
    }
}
impl From<Map> for Value {
    fn from(m: Map) -> Self {
        Self::Map(m)
    }
}
impl<V: Into<Value>> FromIterator<V> for Value {
    fn from_iter<I: IntoIterator<Item = V>>(items: I) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl Struct {
    /// Makes a struct without fields.
    #[must_use]
    pub fn new(ty: TypeRef) -> Self {
        Self { ty, fields: ThinVec::new() }
    }

    /// Makes a struct without fields, with room for `capacity` fields.
    #[must_use]
    pub fn with_capacity(ty: TypeRef, capacity: usize) -> Self {
        Self { ty, fields: ThinVec::with_capacity(capacity) }
    }

    /// Returns the type.
    #[must_use]
    pub fn ty(&self) -> TypeRef {
        self.ty
    }

    /// Returns the value of a field, if set.
    #[must_use]
    pub fn field(&self, id: FieldId) -> Option<&Value> {
        self.position(id).ok().and_then(|at| self.fields.get(at)).map(|(_, v)| v)
    }

    /// Returns the value of a field, if set.
    pub fn field_mut(&mut self, id: FieldId) -> Option<&mut Value> {
        let at = self.position(id).ok()?;
        self.fields.get_mut(at).map(|(_, v)| v)
    }

    /// Returns the value of the field with this JSON name, if set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.field(self.ty.field(name)?.0)
    }

    /// Returns the value of the field with this JSON name, if set.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.field_mut(self.ty.field(name)?.0)
    }

    /// Sets a field and returns its previous value.
    pub fn set(&mut self, id: FieldId, value: Value) -> Option<Value> {
        match self.position(id) {
            Ok(at) => self.fields.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) => {
                self.fields.insert(at, (id, value));
                None
            }
        }
    }

    /// Sets the field with this JSON name; returns `false` when the type has no such field.
    pub fn set_name(&mut self, name: &str, value: impl Into<Value>) -> bool {
        let Some((id, _)) = self.ty.field(name) else { return false };
        self.set(id, value.into());
        true
    }

    /// Removes a field and returns its value.
    pub fn remove(&mut self, id: FieldId) -> Option<Value> {
        let at = self.position(id).ok()?;
        Some(self.fields.remove(at).1)
    }

    /// Removes the field with this JSON name and returns its value.
    pub fn remove_name(&mut self, name: &str) -> Option<Value> {
        self.remove(self.ty.field(name)?.0)
    }

    /// Returns the field's value, created by `make` if unset.
    pub fn entry(&mut self, id: FieldId, make: impl FnOnce() -> Value) -> &mut Value {
        let at = match self.fields.last() {
            // Decoders mostly push fields in order.
            Some((last, _)) if *last >= id => self.position(id),
            _ => Err(self.fields.len()),
        };
        let at = match at {
            Ok(at) => at,
            Err(at) if at == self.fields.len() => {
                self.fields.push((id, make()));
                at
            }
            Err(at) => {
                self.fields.insert(at, (id, make()));
                at
            }
        };
        #[expect(clippy::indexing_slicing, reason = "`at` was found or inserted just above")]
        &mut self.fields[at].1
    }

    /// Returns the struct in a field, created if the field is unset or no struct; `None` when the field's type is no struct.
    pub fn struct_entry(&mut self, id: FieldId) -> Option<&mut Struct> {
        let Shape::Struct(ty) = self.ty.def(id)?.shape else { return None };
        let slot = self.entry(id, || Value::Null);
        if slot.as_struct().is_none() {
            *slot = Value::Struct(Struct::zero(ty));
        }
        slot.as_struct_mut()
    }

    /// Appends a field that sorts after all present ones, for decoders. Falls back to [`Struct::set`].
    pub fn push(&mut self, id: FieldId, value: Value) {
        match self.fields.last() {
            Some((last, _)) if *last >= id => {
                self.set(id, value);
            }
            _ => self.fields.push((id, value)),
        }
    }

    /// Returns the set fields, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static FieldDef, &Value)> {
        let ty = self.ty;
        self.fields.iter().filter_map(move |(id, v)| Some((ty.def(*id)?, v)))
    }

    /// Returns the set fields with their ids, in declaration order.
    #[must_use]
    pub fn entries(&self) -> &[(FieldId, Value)] {
        &self.fields
    }

    /// Returns the set fields, for changing values in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&'static FieldDef, &mut Value)> {
        let ty = self.ty;
        self.fields.iter_mut().filter_map(move |(id, v)| Some((ty.def(*id)?, v)))
    }

    /// Keeps only the fields for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&'static FieldDef, &mut Value) -> bool) {
        let ty = self.ty;
        let mut keeps = |(id, value): &mut (FieldId, Value)| ty.def(*id).is_some_and(|def| keep(def, value));
        // Most structs keep all fields, and for them a plain pass is cheaper.
        let Some(first) = self.fields.iter_mut().position(|field| !keeps(field)) else { return };
        let mut at = 0;
        self.fields.retain_mut(|field| {
            let order = at.cmp(&first);
            at += 1;
            order.is_lt() || (order.is_gt() && keeps(field))
        });
    }

    /// Whether no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the node at a path of names.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        self.get(first)?.at(rest)
    }

    /// Sets the node at a path of struct fields (the last name may also be a map key) and creates structs and maps on the way; returns `false` when the
    /// types have no such path.
    pub fn set_at(&mut self, path: &[&str], value: impl Into<Value>) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Some((id, def)) = self.ty.field(first) else { return false };
        match (rest, &def.shape) {
            ([], _) => {
                self.set(id, value.into());
                true
            }
            (rest, Shape::Struct(_)) => self.struct_entry(id).is_some_and(|inner| inner.set_at(rest, value)),
            ([key], Shape::Map(_)) => {
                let slot = self.entry(id, || Value::Map(Map::default()));
                if !matches!(slot, Value::Map(_)) {
                    *slot = Value::Map(Map::default());
                }
                let Value::Map(map) = slot else { return false };
                map.insert(Str::new(key), value.into());
                true
            }
            _ => false,
        }
    }

    fn position(&self, id: FieldId) -> Result<usize, usize> {
        // Most structs have few set fields: a scan beats a binary search then.
        if self.fields.len() <= 8 {
            for (at, (have, _)) in self.fields.iter().enumerate() {
                if *have >= id {
                    return if *have == id { Ok(at) } else { Err(at) };
                }
            }
            return Err(self.fields.len());
        }
        self.fields.binary_search_by_key(&id, |(have, _)| *have)
    }
}

impl std::fmt::Debug for Struct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.ty.name)?;
        f.debug_map().entries(self.iter().map(|(def, v)| (def.name, v))).finish()
    }
}

impl Map {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let at = self.position(key).ok()?;
        self.entries.get(at).map(|(_, v)| v)
    }

    /// Returns the value of a key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key).ok()?;
        self.entries.get_mut(at).map(|(_, v)| v)
    }

    /// Sets a key and returns its previous value.
    pub fn insert(&mut self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        let key = key.into();
        match self.position(&key) {
            Ok(at) => self.entries.get_mut(at).map(|(_, old)| std::mem::replace(old, value.into())),
            Err(at) => {
                self.entries.insert(at, (key, value.into()));
                None
            }
        }
    }

    /// Makes a map of entries in any order; of equal keys the last one stays. Sorts once, so a hostile order costs nothing.
    #[must_use]
    pub fn from_entries(mut entries: ThinVec<(Str, Value)>) -> Self {
        let sorted = entries.iter().zip(entries.iter().skip(1)).all(|((a, _), (b, _))| a < b);
        if !sorted {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            entries.dedup_by(|(later, value), (kept, slot)| {
                let same = later == kept;
                if same {
                    std::mem::swap(value, slot);
                }
                same
            });
        }
        Self { entries }
    }

    /// Returns the map with more entries, in any order; of equal keys the last one stays.
    #[must_use]
    pub fn with(self, more: ThinVec<(Str, Value)>) -> Self {
        if more.is_empty() {
            return self;
        }
        if self.is_empty() {
            return Self::from_entries(more);
        }
        let mut entries = self.entries;
        entries.extend(more);
        Self::from_entries(entries)
    }

    /// Changes many entries in one pass, since single insertions and removals each move all later entries. `with` must be sorted by key. For each of its keys
    /// `change` gets the key, the present value if any, and the item, and returns the new value or `None` for no entry.
    pub fn merge_sorted<'a, T: 'a, E>(
        &mut self,
        with: impl IntoIterator<Item = (&'a str, T)>,
        mut change: impl FnMut(&str, Option<Value>, T) -> Result<Option<Value>, E>,
    ) -> Result<(), E> {
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut entries = ThinVec::with_capacity(old.len());
        for (key, new) in with {
            while let Some(entry) = old.next_if(|(have, _)| have.as_str() < key) {
                entries.push(entry);
            }
            let have = old.next_if(|(have, _)| have.as_str() == key);
            let (name, value) = have.map_or_else(|| (None, None), |(name, value)| (Some(name), Some(value)));
            if let Some(value) = change(key, value, new)? {
                entries.push((name.unwrap_or_else(|| Str::new(key)), value));
            }
        }
        entries.extend(old);
        self.entries = entries;
        Ok(())
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.position(key).ok()?;
        Some(self.entries.remove(at).1)
    }

    /// Returns the entries sorted by key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value)> + ExactSizeIterator {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Returns the entries sorted by key.
    #[must_use]
    pub fn entries(&self) -> &[(Str, Value)] {
        &self.entries
    }

    /// Returns the entries sorted by key, consuming the map.
    pub fn into_entries(self) -> impl ExactSizeIterator<Item = (Str, Value)> {
        self.entries.into_iter()
    }

    /// Returns the entries, for changing values in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value)> {
        self.entries.iter_mut().map(|(k, v)| (k.as_str(), v))
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.entries.retain_mut(|(k, v)| keep(k, v));
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the map has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        // Decoders mostly insert in order: look at the end first.
        match self.entries.last() {
            Some((last, _)) if last.as_str() < key => Err(self.entries.len()),
            None => Err(0),
            _ => self.entries.binary_search_by(|(have, _)| have.as_str().cmp(key)),
        }
    }
}

impl<K: Into<Str>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self::from_entries(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

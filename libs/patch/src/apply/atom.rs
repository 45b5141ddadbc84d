//! The schema's rules about ownership: which values are atomic, and how list items are identified.

use oarlock_schema::{FieldDef, FieldId, ListType, Presence, Shape, Struct, TypeRef, Value};
use smallvec::SmallVec;

use super::element::Element;

/// The unit of ownership of a value: the whole value, or its parts.
#[derive(Clone, Copy)]
pub(super) enum Atom {
    /// Owned as a whole.
    Leaf,
    /// Owned by field.
    Struct(TypeRef),
    /// Owned by entry; all entries have this shape.
    Map(&'static Shape),
    /// Owned by item; key fields identify the items.
    Keyed(&'static [&'static str], &'static Shape),
    /// Owned by item; the value identifies the item.
    Set,
    /// No schema: maps are owned by entry, lists as a whole.
    Unknown,
}

impl Atom {
    /// Returns the ownership of a list item or map value.
    pub(super) fn of(shape: &'static Shape) -> Self {
        match shape {
            Shape::Struct(ty) if ty.atomic => Self::Leaf,
            Shape::Struct(ty) => Self::Struct(ty),
            Shape::Map(inner) => Self::Map(inner),
            Shape::Json | Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStringArray => Self::Unknown,
            _ => Self::Leaf,
        }
    }

    /// Returns the ownership of a field.
    pub(super) fn of_field(def: &'static FieldDef) -> Self {
        if def.atomic {
            return Self::Leaf;
        }
        match (&def.shape, def.list) {
            (Shape::List(inner), ListType::Map) => Self::Keyed(def.keys, inner),
            (Shape::List(_), ListType::Set) => Self::Set,
            (Shape::Struct(ty), _) if def.granular => Self::Struct(ty),
            (shape, _) => Self::of(shape),
        }
    }

    /// Returns the ownership of the member `name` of a value with this ownership.
    pub(super) fn member(self, name: &str) -> Self {
        match self {
            Self::Struct(ty) => ty.field(name).map_or(Self::Unknown, |(_, def)| Self::of_field(def)),
            Self::Map(inner) => Self::of(inner),
            _ => Self::Unknown,
        }
    }

    /// Returns the ownership of the items of a list that is owned by item.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Keyed(_, inner) => Self::of(inner),
            Self::Set => Self::Leaf,
            _ => Self::Unknown,
        }
    }

    /// Whether the schema declares a member with this name; a declared member is in the set whenever one of its children is.
    pub(super) fn declares(self, name: &str) -> bool {
        matches!(self, Self::Struct(ty) if ty.field(name).is_some())
    }
}

/// Returns the members of a struct or map, sorted by name; empty for any other value.
pub(super) fn members(value: Option<&Value>) -> SmallVec<[(&str, &Value); 16]> {
    match value {
        Some(Value::Struct(node)) => fields(node).into_iter().map(|(_, def, value)| (def.name, value)).collect(),
        Some(Value::Map(map)) => map.iter().collect(),
        _ => SmallVec::new(),
    }
}

type Fields<'a> = SmallVec<[(FieldId, &'static FieldDef, &'a Value); 16]>;

/// Returns the fields of a struct, sorted by name. Follows the type's own order by name instead of comparing names.
pub(super) fn fields(node: &Struct) -> Fields<'_> {
    const MAX_TABLE_FIELDS: usize = 64;
    let (ty, entries) = (node.ty(), node.entries());
    let mut out = Fields::new();
    if entries.len() < 2 || ty.fields.len() > MAX_TABLE_FIELDS || ty.fields.len() > 4 * entries.len() + 24 {
        out.extend(entries.iter().filter_map(|(id, value)| Some((*id, ty.def(*id)?, value))));
        out.sort_unstable_by_key(|(_, def, _)| def.name);
        return out;
    }
    let mut place = [u8::MAX; MAX_TABLE_FIELDS];
    for (at, (id, _)) in entries.iter().enumerate() {
        if let Some(slot) = place.get_mut(usize::from(id.0)) {
            *slot = at as u8;
        }
    }
    for id in ty.by_name {
        let at = place.get(usize::from(*id)).copied().unwrap_or(u8::MAX);
        if let Some((id, value)) = entries.get(usize::from(at))
            && let Some(def) = ty.def(*id)
        {
            out.push((*id, def, value));
        }
    }
    out
}

/// Returns the element that identifies an item of a keyed list. An absent key counts with its default, if the key has one.
///
/// # Errors
/// Upstream's text about an item without any key.
pub(super) fn keyed(item: &Value, keys: &'static [&'static str], shape: &'static Shape) -> Result<Element, String> {
    match item {
        Value::Struct(_) | Value::Map(_) => {}
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    }
    let mut fields: Vec<(oarlock_schema::Str, Value)> = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(value) = item.get(key).cloned().or_else(|| default(shape, key)) {
            fields.push(((*key).into(), value));
        }
    }
    if fields.is_empty() && !keys.is_empty() {
        let listed: Vec<String> = keys.iter().map(|key| oarlock_meta::quote::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            listed.join(" ")
        ));
    }
    fields.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Element::Key(fields))
}

/// Returns the default that upstream's schema gives a key: the documented one, or the zero value of a field that Go always writes.
fn default(shape: &'static Shape, key: &str) -> Option<Value> {
    let Shape::Struct(ty) = shape else { return None };
    let (_, def) = ty.field(key)?;
    if let Some(text) = def.default {
        return oarlock_codec::json::decode_value(text.as_bytes(), oarlock_codec::Mode::Lenient).ok().map(|d| d.value);
    }
    (def.presence == Presence::Always && !def.pointer).then(|| Value::zero(&def.shape)).filter(|value| !value.is_null())
}

/// Returns the element that identifies an item of a list owned by item.
///
/// # Errors
/// Upstream's text about an item that cannot be identified.
pub(super) fn item_element(item: &Value, atom: Atom) -> Result<Element, String> {
    match atom {
        Atom::Keyed(keys, shape) => keyed(item, keys, shape),
        _ => match item {
            Value::Map(_) | Value::Struct(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::List(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(Element::Value(scalar.clone())),
        },
    }
}

/// Whether a value counts as an empty map or list: absent, null, or without members or items.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Struct(node)) => node.is_empty(),
        Some(Value::Map(map)) => map.is_empty(),
        Some(Value::List(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Returns the ownership of a pair of values: without a schema the values decide.
pub(super) fn settle(atom: Atom, left: Option<&Value>, right: Option<&Value>) -> Atom {
    match atom {
        Atom::Unknown => {
            let map = |value: Option<&Value>| matches!(value, Some(Value::Map(_) | Value::Struct(_)));
            if map(left) || map(right) { Atom::Unknown } else { Atom::Leaf }
        }
        other => other,
    }
}

/// Whether a typed and a generic value are equal as JSON: a struct equals the map with the same members.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Struct(_), Value::Map(_)) | (Value::Map(_), Value::Struct(_)) => {
            let (a, b) = (members(Some(a)), members(Some(b)));
            a.len() == b.len() && a.iter().zip(&b).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        (Value::Struct(a), Value::Struct(b)) => a == b,
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

//! The canonical form of objects: what Go's typed round trip through JSON and protobuf keeps of an object.
//!
//! Per field: an empty list or map of an `omitempty` field is removed, as are zero scalars that are no pointers; pointers stay whatever their value;
//! struct values always appear, as do fields without `omitempty`; empty lists and maps that always appear become `null`, because protobuf cannot distinguish
//! them from absent ones. Texts (quantities, times) become canonical during decoding.

use oarlock_seeded_bug::seeded_bug;

use crate::types::{FieldDef, Presence, Shape, TypeDef, TypeRef};
use crate::value::{Struct, Value};

impl Struct {
    /// Makes the canonical zero struct: only the fields that Go always writes.
    #[must_use]
    pub fn zero(ty: TypeRef) -> Self {
        let mut zero = Self::new(ty);
        fill_always(&mut zero);
        zero
    }
}

/// Whether a canonical struct contains this field even if unset. `build.rs` precomputes the answers as
/// [`TypeDef::always`](crate::TypeDef).
#[must_use]
pub fn always(def: &FieldDef) -> bool {
    match def.presence {
        Presence::Always => true,
        Presence::OmitEmpty => !def.pointer && def.shape.is_go_struct(),
        Presence::OmitZero => false,
    }
}

/// Adds the fields that a canonical struct always contains; children that are present are unchanged.
pub fn fill_always(node: &mut Struct) {
    let ty = node.ty();
    for index in ty.always {
        let id = crate::types::FieldId(*index);
        let Some(def) = ty.def(id) else { continue };
        if node.field(id).is_none() {
            node.set(id, if def.pointer { Value::Null } else { Value::zero(&def.shape) });
        }
    }
}

/// Makes one struct canonical. Its children must be canonical already.
pub fn settle(node: &mut Struct) {
    node.retain(|def, value| {
        mend(def, value);
        keeps(def, value)
    });
    fill_always(node);
}

/// Makes a struct canonical like [`settle`], but keeps an empty list or map that always appears as written: a client that writes `[]` comes to own the
/// field, a client that omits the field does not. The stored form has `null` for both. Empty lists and maps of `REFUSED_EMPTY` stay as well. `owner` is the
/// type of the struct that has `node` in one of its fields.
pub fn settle_written(node: &mut Struct, owner: Option<TypeRef>) {
    let ty = node.ty();
    node.retain(|def, value| {
        zero_for_null(def, value);
        keeps(def, value) || (is_empty(value) && is_refused_empty(ty, owner, def))
    });
    fill_always(node);
}

/// Lists and maps that validation refuses even when they are empty, because upstream compares Go's empty value with nil: the type with the field, the owner
/// of that type where only its structs are concerned, and the fields. No stored object has them.
const REFUSED_EMPTY: [(&str, Option<&str>, &[&str]); 2] = [
    (EPHEMERAL_CONTAINER, None, &["ports", "resizePolicy", "restartPolicyRules"]),
    ("core/v1.ResourceRequirements", Some(EPHEMERAL_CONTAINER), &["limits", "requests", "claims"]),
];
const EPHEMERAL_CONTAINER: &str = "core/v1.EphemeralContainer";

fn is_refused_empty(ty: TypeRef, owner: Option<TypeRef>, def: &FieldDef) -> bool {
    REFUSED_EMPTY.iter().any(|(name, of, fields)| {
        let owned = of.is_none_or(|of| owner.is_some_and(|owner| owner.name == of));
        ty.name == *name && owned && fields.contains(&def.name)
    })
}

/// Whether two values are semantically equal: absent, `null`, and an empty list or map are the same (upstream `equality.Semantic`).
#[must_use]
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let nothing = |value: &Value| value.is_null() || is_empty(value);
    match (a, b) {
        (None, None) => true,
        (Some(only), None) | (None, Some(only)) => nothing(only),
        (Some(a), Some(b)) if a == b || (nothing(a) && nothing(b)) => true,
        (Some(Value::Struct(a)), Some(Value::Struct(b))) => {
            std::ptr::eq(a.ty(), b.ty()) && a.ty().iter().all(|(id, _)| same(a.field(id), b.field(id)))
        }
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(Value::Map(a)), Some(Value::Map(b))) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|b| same(Some(value), Some(b))))
        }
        _ => false,
    }
}

/// Makes a struct and everything below it canonical.
pub fn canonicalize(node: &mut Struct) {
    for (_, value) in node.iter_mut() {
        descend(value);
    }
    settle(node);
}

fn descend(value: &mut Value) {
    match value {
        Value::Struct(inner) => canonicalize(inner),
        Value::List(items) => items.iter_mut().for_each(descend),
        Value::Map(map) => map.iter_mut().for_each(|(_, v)| descend(v)),
        _ => {}
    }
}

/// Replaces `null` in a field that is no pointer by the zero value; an empty list or map that always appears becomes `null`.
fn mend(def: &FieldDef, value: &mut Value) {
    zero_for_null(def, value);
    if def.presence == Presence::Always && !def.pointer && is_empty(value) {
        *value = Value::Null;
    }
}

fn zero_for_null(def: &FieldDef, value: &mut Value) {
    if value.is_null() && !def.pointer && !matches!(def.shape, Shape::List(_) | Shape::Map(_)) {
        *value = Value::zero(&def.shape);
    }
}

fn keeps(def: &FieldDef, value: &Value) -> bool {
    if def.pointer {
        return !value.is_null() || def.presence == Presence::Always;
    }
    match def.presence {
        Presence::Always => true,
        Presence::OmitEmpty if def.shape.is_go_struct() => true,
        Presence::OmitEmpty if seeded_bug!("zeros_are_kept") => true,
        Presence::OmitEmpty => !is_zero_scalar(value) && !is_empty(value) && !value.is_null(),
        Presence::OmitZero => !is_zero(def, value),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

fn is_zero_scalar(value: &Value) -> bool {
    match value {
        Value::Bool(b) => !b,
        Value::Int(n) => *n == 0,
        Value::Str(s) => s.is_empty(),
        Value::Number(text) => text.parse::<f64>().is_ok_and(|n| n == 0.0),
        _ => false,
    }
}

fn is_zero(def: &FieldDef, value: &Value) -> bool {
    match (&def.shape, value) {
        (_, Value::Null) => true,
        (Shape::Struct(ty), Value::Struct(inner)) => is_zero_struct(ty, inner),
        (Shape::Quantity, Value::Str(s)) => s == "0",
        (Shape::Duration, Value::Str(s)) => s == "0s",
        _ => is_zero_scalar(value) || is_empty(value),
    }
}

fn is_zero_struct(ty: &TypeDef, node: &Struct) -> bool {
    node.entries().iter().all(|(id, value)| ty.def(*id).is_some_and(|def| !def.pointer && is_zero(def, value)))
}

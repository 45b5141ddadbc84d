//! Encodes canonical structs as the bytes that Go's generated code writes: fields by number, scalars that are no pointers and
//! struct values always, everything else only if present.

mod special;

use oarlock_schema::{Obj, Shape, Struct, Value};

use super::envelope::seal;
use super::plan::{Message, Slot, Target, plan};
use super::wire::{FIXED64, put_bytes, put_int, put_message, put_tag};
use crate::base64;

/// Encodes an object with its envelope.
#[must_use]
pub fn encode(obj: &Obj) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    seal(obj.api_version(), obj.kind(), &mut out, |out| encode_message(obj, out));
    out
}

/// Appends a struct as a bare message.
pub fn encode_message(node: &Struct, out: &mut Vec<u8>) {
    structure(node, plan(node.ty()), out);
}

pub(super) fn structure(node: &Struct, plan: &Message, out: &mut Vec<u8>) {
    for entry in &plan.entries {
        match &entry.target {
            Target::Inline(inner) => put_message(entry.number, out, |out| structure(node, inner, out)),
            Target::Field(slot) => field(slot, node.field(slot.id), out),
        }
    }
}

fn field(slot: &Slot, value: Option<&Value>, out: &mut Vec<u8>) {
    let (number, def) = (slot.def.number, slot.def);
    let value = value.filter(|value| !value.is_null());
    match (&def.shape, value) {
        (Shape::List(inner), Some(list)) if def.wrapped => {
            put_message(number, out, |out| {
                for item in list.items() {
                    single(slot, 1, inner, item, out);
                }
            });
        }
        (Shape::List(inner), Some(list)) => {
            for item in list.items() {
                single(slot, number, inner, item, out);
            }
        }
        (Shape::Map(inner), Some(Value::Map(map))) => {
            for (key, item) in map.iter() {
                put_message(number, out, |out| {
                    put_bytes(1, key.as_bytes(), out);
                    match inner {
                        Shape::List(item_shape) => put_message(2, out, |out| {
                            for item in item.items() {
                                single(slot, 1, item_shape, item, out);
                            }
                        }),
                        _ => single(slot, 2, inner, item, out),
                    }
                });
            }
        }
        (Shape::List(_) | Shape::Map(_) | Shape::Bytes, None) => {}
        (shape, Some(value)) => single(slot, number, shape, value, out),
        (_, None) if def.pointer => {}
        (shape, None) => zero(slot, number, shape, out),
    }
}

/// Appends a value that is neither list nor map. A value of the wrong kind is written as zero; canonical structs contain none.
fn single(slot: &Slot, number: u32, shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    match shape {
        Shape::Str => put_bytes(number, value.as_str().unwrap_or("").as_bytes(), out),
        Shape::Bool => put_int(number, i64::from(value.as_bool().unwrap_or(false)), out),
        Shape::Int32 | Shape::Int64 => put_int(number, value.as_int().unwrap_or(0), out),
        Shape::Float64 => {
            #[expect(clippy::cast_precision_loss, reason = "Go stores these fields as doubles")]
            let n = match value {
                Value::Number(text) => text.parse().unwrap_or(0.0),
                other => other.as_int().unwrap_or(0) as f64,
            };
            put_tag(number, FIXED64, out);
            out.extend_from_slice(&n.to_bits().to_le_bytes());
        }
        Shape::Bytes => {
            let bytes = base64::decode(value.as_str().unwrap_or("").as_bytes()).unwrap_or_default();
            put_bytes(number, &bytes, out);
        }
        Shape::Struct(ty) => put_message(number, out, |out| match value {
            Value::Struct(node) => structure(node, slot.child(ty), out),
            _ => structure(&Struct::new(ty), slot.child(ty), out),
        }),
        _ => put_message(number, out, |out| special::encode(shape, value, out)),
    }
}

/// Appends the zero value that Go writes for a field that is no pointer.
fn zero(slot: &Slot, number: u32, shape: &Shape, out: &mut Vec<u8>) {
    match shape {
        Shape::Str => put_bytes(number, b"", out),
        Shape::Bool | Shape::Int32 | Shape::Int64 => put_int(number, 0, out),
        _ => single(slot, number, shape, &Value::Null, out),
    }
}

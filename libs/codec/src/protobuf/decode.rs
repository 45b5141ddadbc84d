//! Decodes protobuf bytes into canonical structs, driven by the schema's field numbers.

mod special;

use oarlock_schema::{FieldId, Map, Obj, Presence, Shape, Str, Struct, TypeRef, Value, canonical};
use thin_vec::ThinVec;

use super::envelope;
use super::plan::{Message, Slot, Target, plan};
use super::wire::{BYTES, Bad, FIXED64, Reader, VARINT, malformed};
use crate::base64;
use crate::error::DecodeError;
use crate::json::{Peeked, utf8};
use crate::stamp::stamp;
use crate::walk::{Decoded, MAX_DEPTH, to_str, zero_item};

/// Reads group, version and kind from a body's envelope.
///
/// # Errors
/// [`DecodeError::Kind`] for a body without an envelope.
pub fn peek_gvk(body: &[u8]) -> Result<Peeked, DecodeError> {
    envelope::open(body)?.gvk()
}

/// Decodes a body with its envelope as an object of type `ty`, in canonical form. `kind` and `apiVersion` are those of the
/// envelope. Unknown numbers are skipped: strict validation never applies to protobuf, so there are no findings.
///
/// # Errors
/// [`DecodeError::Kind`] for a body without an envelope, [`DecodeError::Value`] for a malformed message.
pub fn decode(body: &[u8], ty: TypeRef) -> Result<Decoded<Obj>, DecodeError> {
    let value = decode_at(body, ty, 0).map_err(|error| *error)?;
    Ok(Decoded { value, findings: Vec::new() })
}

/// Decodes like [`decode`] an object at depth `depth` of another one: embedded objects may embed others.
pub(super) fn decode_at(body: &[u8], ty: TypeRef, depth: u32) -> Result<Obj, Bad> {
    let opened = envelope::open(body)?;
    let mut root = structure(opened.raw, plan(ty), Struct::with_capacity(ty, 8), depth)?;
    if !opened.kind.is_empty() && !opened.api_version.is_empty() {
        root.set_name("kind", opened.kind);
        root.set_name("apiVersion", opened.api_version);
    }
    Ok(Obj::from_root(stamp(root)))
}

/// Decodes a bare message as a struct of type `ty`, in canonical form.
///
/// # Errors
/// [`DecodeError::Value`] for a malformed message.
pub fn decode_message(bytes: &[u8], ty: TypeRef) -> Result<Struct, DecodeError> {
    structure(bytes, plan(ty), Struct::with_capacity(ty, 8), 0).map_err(|error| *error)
}

pub(super) fn structure(bytes: &[u8], plan: &Message, node: Struct, depth: u32) -> Result<Struct, Bad> {
    structure_of(&[bytes], plan, node, depth)
}

/// A struct field that occurs repeatedly, with the messages of its further occurrences.
type RepeatedField<'a> = (&'a Slot, TypeRef, Vec<&'a [u8]>);

/// Reads a message that comes in parts, on top of `node`. A field may occur any number of times. Completing the struct after each occurrence would cost the
/// square of their number, so the parts are collected and read together.
fn structure_of(parts: &[&[u8]], plan: &Message, mut node: Struct, depth: u32) -> Result<Struct, Bad> {
    let mut repeated_fields = Vec::new();
    for part in parts {
        fields(part, plan, &mut node, depth, &mut repeated_fields)?;
    }
    for (slot, ty, parts) in repeated_fields {
        let at = node.entry(slot.id, || Value::Null);
        let old = match std::mem::take(at) {
            Value::Struct(old) => old,
            _ => Struct::with_capacity(ty, 4),
        };
        *at = Value::Struct(structure_of(&parts, slot.child(ty), old, depth + 1)?);
    }
    finish_maps(&mut node);
    canonical::settle(&mut node);
    Ok(node)
}

fn fields<'a>(
    bytes: &'a [u8],
    plan: &'a Message,
    node: &mut Struct,
    depth: u32,
    repeated_fields: &mut Vec<RepeatedField<'a>>,
) -> Result<(), Bad> {
    if depth > MAX_DEPTH {
        return Err(malformed("nested too deeply"));
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let (number, kind) = reader.tag()?;
        match plan.get(number) {
            None => reader.skip(number, kind)?,
            Some(Target::Inline(inner)) => {
                fields(reader.bytes(number, kind)?, inner, node, depth + 1, repeated_fields)?
            }
            Some(Target::Field(slot)) => match &slot.def.shape {
                Shape::Struct(ty) if node.field(slot.id).is_some_and(|old| old.as_struct().is_some()) => {
                    let part = reader.bytes(number, kind)?;
                    match repeated_fields.iter_mut().find(|(known, ..)| known.id == slot.id) {
                        Some((_, _, parts)) => parts.push(part),
                        None => repeated_fields.push((slot, ty, vec![part])),
                    }
                }
                _ => store(&mut reader, kind, slot, node, depth)?,
            },
        }
    }
    Ok(())
}

/// Reads one occurrence of a field into its struct.
fn store(reader: &mut Reader<'_>, kind: u8, slot: &Slot, node: &mut Struct, depth: u32) -> Result<(), Bad> {
    let (number, def) = (slot.def.number, slot.def);
    // Go writes every scalar, set or not; zero values that the canonical form drops are not stored first.
    let vanishes = !def.pointer && def.presence != Presence::Always;
    match &def.shape {
        Shape::Str => {
            let text = reader.bytes(number, kind)?;
            if !(text.is_empty() && vanishes && node.field(slot.id).is_none()) {
                *node.entry(slot.id, || Value::Null) = Value::Str(to_str(utf8(text)));
            }
        }
        shape @ (Shape::Bool | Shape::Int32 | Shape::Int64) => {
            let n = reader.int(number, kind)?;
            if !(n == 0 && vanishes && node.field(slot.id).is_none()) {
                *node.entry(slot.id, || Value::Null) = whole(shape, n);
            }
        }
        Shape::Struct(ty) => {
            let bytes = reader.bytes(number, kind)?;
            let at = node.entry(slot.id, || Value::Null);
            let old = match std::mem::take(at) {
                Value::Struct(old) => old,
                _ => Struct::with_capacity(ty, 4),
            };
            *at = Value::Struct(structure(bytes, slot.child(ty), old, depth + 1)?);
        }
        Shape::List(inner) if def.wrapped => {
            let bytes = reader.bytes(number, kind)?;
            unwrap_items(bytes, inner, slot, depth, list_at(node, slot.id))?;
        }
        Shape::List(inner) => repeated(reader, kind, inner, slot, depth, list_at(node, slot.id))?,
        Shape::Map(inner) => {
            // Stored as alternating keys and values until the struct is complete: inserting single entries would be quadratic.
            let pairs = list_at(node, slot.id);
            map_entry(reader.bytes(number, kind)?, inner, slot, depth, pairs)?;
        }
        shape => *node.entry(slot.id, || Value::Null) = single(reader, kind, shape, slot, depth)?,
    }
    Ok(())
}

/// Returns the list in a field, created if absent.
fn list_at(node: &mut Struct, id: FieldId) -> &mut ThinVec<Value> {
    let value = node.entry(id, || Value::List(ThinVec::new()));
    if !matches!(value, Value::List(_)) {
        // A struct that comes in two parts: its maps are already complete and are reopened as pairs.
        let map = std::mem::take(value);
        let entries = map.as_map().map_or(&[][..], Map::entries);
        *value = Value::List(entries.iter().flat_map(|(k, v)| [Value::Str(k.clone()), v.clone()]).collect());
    }
    match value {
        Value::List(items) => items,
        _ => unreachable!("made a list just above"),
    }
}

/// Turns the collected keys and values of map fields into maps.
fn finish_maps(node: &mut Struct) {
    for (def, value) in node.iter_mut() {
        if !matches!(def.shape, Shape::Map(_)) {
            continue;
        }
        let Value::List(pairs) = value else { continue };
        let mut entries = ThinVec::with_capacity(pairs.len() / 2);
        let mut pairs = std::mem::take(pairs).into_iter();
        while let (Some(Value::Str(key)), Some(value)) = (pairs.next(), pairs.next()) {
            entries.push((key, value));
        }
        *value = Value::Map(Map::from_entries(entries));
    }
}

/// Appends the items of a list that has a message of its own.
fn unwrap_items(bytes: &[u8], inner: &Shape, slot: &Slot, depth: u32, items: &mut ThinVec<Value>) -> Result<(), Bad> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.tag()? {
            (1, kind) => repeated(&mut reader, kind, inner, slot, depth, items)?,
            (number, kind) => reader.skip(number, kind)?,
        }
    }
    Ok(())
}

/// Reads one occurrence of a repeated field: an item, or a packed run of numbers.
fn repeated(
    reader: &mut Reader<'_>,
    kind: u8,
    inner: &Shape,
    slot: &Slot,
    depth: u32,
    items: &mut ThinVec<Value>,
) -> Result<(), Bad> {
    let each = match inner {
        Shape::Bool | Shape::Int32 | Shape::Int64 => VARINT,
        Shape::Float64 => FIXED64,
        _ => BYTES,
    };
    if kind != BYTES || each == BYTES {
        items.push(single(reader, kind, inner, slot, depth)?);
        return Ok(());
    }
    let mut packed = Reader::new(reader.bytes(slot.def.number, kind)?);
    while !packed.is_empty() {
        items.push(single(&mut packed, each, inner, slot, depth)?);
    }
    Ok(())
}

/// Appends a map entry's key and value.
fn map_entry(bytes: &[u8], inner: &Shape, slot: &Slot, depth: u32, pairs: &mut ThinVec<Value>) -> Result<(), Bad> {
    let mut key = Str::const_new("");
    let mut value = None;
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match (reader.tag()?, inner) {
            ((1, kind), _) => key = to_str(utf8(reader.bytes(1, kind)?)),
            ((2, kind), Shape::List(item)) => {
                let mut items = ThinVec::new();
                unwrap_items(reader.bytes(2, kind)?, item, slot, depth, &mut items)?;
                value = Some(Value::List(items));
            }
            ((2, kind), inner) => value = Some(single(&mut reader, kind, inner, slot, depth)?),
            ((number, kind), _) => reader.skip(number, kind)?,
        }
    }
    pairs.push(Value::Str(key));
    pairs.push(value.unwrap_or_else(|| zero_item(inner)));
    Ok(())
}

fn whole(shape: &Shape, n: u64) -> Value {
    match shape {
        Shape::Bool => Value::Bool(n != 0),
        #[expect(clippy::cast_possible_truncation, reason = "Go keeps the low 32 bits")]
        Shape::Int32 => Value::Int(i64::from(n as i32)),
        _ => Value::Int(n.cast_signed()),
    }
}

/// Reads one value that is neither list nor map.
fn single(reader: &mut Reader<'_>, kind: u8, shape: &Shape, slot: &Slot, depth: u32) -> Result<Value, Bad> {
    let number = slot.def.number;
    Ok(match shape {
        Shape::Bool | Shape::Int32 | Shape::Int64 => whole(shape, reader.int(number, kind)?),
        Shape::Float64 => special::double(reader.double(number, kind)?)?,
        Shape::Str => Value::Str(to_str(utf8(reader.bytes(number, kind)?))),
        Shape::Bytes => Value::from(base64::encode(reader.bytes(number, kind)?)),
        Shape::Struct(ty) => {
            let bytes = reader.bytes(number, kind)?;
            Value::Struct(structure(bytes, slot.child(ty), Struct::with_capacity(ty, 4), depth + 1)?)
        }
        _ => special::decode(shape, reader.bytes(number, kind)?, depth)?,
    })
}

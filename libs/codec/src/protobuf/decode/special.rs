//! Decodes messages whose JSON form differs from a struct: times, quantities, embedded JSON, schema-or-something.

use oarlock_meta::{GoDuration, MicroTime, Quantity, Time};
use oarlock_schema::{Shape, Str, Struct, Value};
use thin_vec::ThinVec;

use super::{decode_at, structure};
use crate::error::DecodeError;
use crate::json::{self, number, utf8};
use crate::protobuf::envelope;
use crate::protobuf::plan::plan;
use crate::protobuf::wire::{Bad, Field, Reader, malformed};
use crate::source::Source as _;
use crate::walk::{Walk, schema_type};

/// The range of seconds since 1970 that RFC 3339 can write.
const YEARS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

pub(super) fn double(n: f64) -> Result<Value, Bad> {
    if n.is_finite() { Ok(number::float(n)) } else { Err(malformed("a number that JSON cannot hold")) }
}

/// Decodes a message of a special type.
pub(super) fn decode(shape: &Shape, bytes: &[u8], depth: u32) -> Result<Value, Bad> {
    match shape {
        Shape::Quantity => {
            let text = text_field(bytes, 1)?;
            if text.is_empty() && bytes.is_empty() {
                return Ok(Value::zero(shape));
            }
            let text = utf8(text);
            let canonical = Quantity::canonicalize(&text).map_err(|e| Box::new(DecodeError::Value(e.to_string())))?;
            Ok(Value::Str(Str::new(canonical)))
        }
        Shape::IntOrString => int_or_string(bytes),
        Shape::Time | Shape::MicroTime => time(shape, bytes),
        Shape::Duration => {
            let nanos = ints(bytes)?.0;
            Ok(Value::from(GoDuration::from_nanos(nanos).to_string()))
        }
        Shape::FieldsV1 => {
            let raw = text_field(bytes, 1)?;
            if raw.is_empty() { Ok(Value::Null) } else { embedded_text(raw) }
        }
        Shape::RawExtension | Shape::Json => {
            let raw = text_field(bytes, 1)?;
            if raw.is_empty() { Ok(Value::Null) } else { embedded(raw, depth) }
        }
        _ => schema_or(shape, bytes, depth),
    }
}

/// Returns the bytes of one field of a message, the last occurrence if repeated.
fn text_field(bytes: &[u8], number: u32) -> Result<&[u8], Bad> {
    let mut found: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.field()? {
            (at, Field::Bytes(text)) if at == number => found = text,
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the numbers in fields 1 and 2.
fn ints(bytes: &[u8]) -> Result<(i64, i64), Bad> {
    let (mut first, mut second) = (0, 0);
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.field()? {
            (1, Field::Varint(n)) => first = n.cast_signed(),
            (2, Field::Varint(n)) => second = n.cast_signed(),
            _ => {}
        }
    }
    Ok((first, second))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Bad> {
    let (kind, number) = ints(bytes)?;
    #[expect(clippy::cast_possible_truncation, reason = "Go keeps the low 32 bits")]
    let number = number as i32;
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::Str(Str::from(utf8(text_field(bytes, 3)?)))),
        _ => Err(malformed("impossible IntOrString.Type")),
    }
}

fn time(shape: &Shape, bytes: &[u8]) -> Result<Value, Bad> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanos) = ints(bytes)?;
    if !YEARS.contains(&seconds) {
        return Err(malformed("year outside of range [0,9999]"));
    }
    if matches!(shape, Shape::Time) {
        let time = Time::from_unix(seconds);
        return Ok(if time.is_zero() { Value::Null } else { Value::from(time.to_string()) });
    }
    let micros = seconds * 1_000_000 + nanos.clamp(0, 999_999_999) / 1000;
    let time = MicroTime::from_unix_micros(micros);
    Ok(if time.is_zero() { Value::Null } else { Value::from(time.to_string()) })
}

/// Reads a field set's text. The text is checked, because JSON answers contain the text unchanged.
fn embedded_text(raw: &[u8]) -> Result<Value, Bad> {
    let text = utf8(raw);
    let mut source = json::text::Text::new(&text);
    let compact = source.raw(0);
    match compact {
        Ok(compact) if source.at_end() => Ok(Value::Str(Str::from(compact))),
        _ => Err(Box::new(json::bad_syntax(raw))),
    }
}

/// Reads embedded JSON, or an embedded object in protobuf.
fn embedded(raw: &[u8], depth: u32) -> Result<Value, Bad> {
    if raw.starts_with(&envelope::MAGIC) {
        let opened = envelope::open(raw)?;
        let gvk = opened.gvk()?;
        let known = oarlock_schema::type_of_kind(&gvk.group_version.group, &gvk.group_version.version, &gvk.kind);
        let ty = known.ok_or_else(|| malformed("embedded object of an unknown kind"))?;
        return Ok(Value::Struct(decode_at(raw, ty, depth + 1)?.into_root()));
    }
    let text = utf8(raw);
    let mut walk = Walk::below(json::text::Text::new(&text), depth + 1);
    match walk.any(&crate::frame::Frame::ROOT, true) {
        Ok(value) if walk.src.at_end() => Ok(value),
        _ => Err(Box::new(json::bad_syntax(raw))),
    }
}

fn schema_or(shape: &Shape, bytes: &[u8], depth: u32) -> Result<Value, Bad> {
    let Some(ty) = schema_type() else { return Err(malformed("no type for JSON schemas")) };
    let mut allows = false;
    let mut schema = None;
    let mut items = ThinVec::new();
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match (shape, reader.field()?) {
            (Shape::SchemaOrBool, (1, Field::Varint(n))) => allows = n != 0,
            (Shape::SchemaOrBool, (2, Field::Bytes(inner)))
            | (Shape::SchemaOrArray | Shape::SchemaOrStringArray, (1, Field::Bytes(inner))) => {
                schema = Some(structure(inner, plan(ty), Struct::new(ty), depth + 1)?);
            }
            (Shape::SchemaOrArray, (2, Field::Bytes(inner))) => {
                items.push(Value::Struct(structure(inner, plan(ty), Struct::new(ty), depth + 1)?));
            }
            (Shape::SchemaOrStringArray, (2, Field::Bytes(text))) => items.push(Value::from(&*utf8(text))),
            _ => {}
        }
    }
    // A list takes precedence over a schema, as in Go's JSON encoding.
    Ok(match schema {
        _ if !items.is_empty() => Value::List(items),
        Some(schema) => Value::Struct(schema),
        None if matches!(shape, Shape::SchemaOrBool) => Value::Bool(allows),
        None => Value::Null,
    })
}

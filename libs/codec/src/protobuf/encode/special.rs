//! Encodes messages whose JSON form differs from a struct: times, quantities, embedded JSON, schema-or-something.

use oarlock_meta::{GoDuration, MicroTime, Time};
use oarlock_schema::{Shape, Value};

use super::structure;
use crate::json;
use crate::protobuf::plan::plan;
use crate::protobuf::wire::{BYTES, put_bytes, put_int, put_message, put_tag, put_varint};

/// Appends the body of a special message.
pub(super) fn encode(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    let text = value.as_str().unwrap_or("");
    match shape {
        Shape::Quantity => put_bytes(1, if text.is_empty() { b"0" } else { text.as_bytes() }, out),
        Shape::IntOrString => {
            put_int(1, i64::from(value.as_str().is_some()), out);
            put_int(2, value.as_int().unwrap_or(0), out);
            put_bytes(3, text.as_bytes(), out);
        }
        Shape::Time => {
            if let Ok(time) = Time::parse(text) {
                put_int(1, time.unix(), out);
                put_int(2, 0, out);
            }
        }
        Shape::MicroTime => {
            if let Ok(time) = MicroTime::parse(text) {
                put_int(1, time.unix_micros().div_euclid(1_000_000), out);
                put_int(2, time.unix_micros().rem_euclid(1_000_000) * 1000, out);
            }
        }
        Shape::Duration => put_int(1, GoDuration::parse(text).map_or(0, GoDuration::nanos), out),
        Shape::FieldsV1 | Shape::RawExtension | Shape::Json if value.is_null() => {}
        Shape::FieldsV1 => put_bytes(1, text.as_bytes(), out),
        Shape::RawExtension | Shape::Json => {
            let mut raw = Vec::new();
            // Embedded objects are escaped as by the Go clients that compare their bytes (ControllerRevision).
            match shape {
                Shape::Json => json::encode_raw(value, &mut raw),
                _ => json::encode_value(value, &mut raw),
            }
            put_bytes(1, &raw, out);
        }
        Shape::SchemaOrBool => {
            let allows = !matches!(value, Value::Bool(false) | Value::Null);
            put_int(1, i64::from(allows), out);
            put_schema(2, value, out);
        }
        Shape::SchemaOrArray | Shape::SchemaOrStringArray => {
            put_schema(1, value, out);
            for item in value.items() {
                put_schema(2, item, out);
                if let Some(text) = item.as_str() {
                    put_tag(2, BYTES, out);
                    put_varint(text.len() as u64, out);
                    out.extend_from_slice(text.as_bytes());
                }
            }
        }
        _ => {}
    }
}

fn put_schema(number: u32, value: &Value, out: &mut Vec<u8>) {
    if let Value::Struct(schema) = value {
        put_message(number, out, |out| structure(schema, plan(schema.ty()), out));
    }
}

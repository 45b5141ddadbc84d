//! Conversions between types.

use std::sync::Arc;

use super::numbers::overflow;
use super::{Cost, Row, row, times, unfit};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

pub(super) const ROWS: &[Row] = &[
    row("int(int): int", Cost::One, |_, args| same(args)),
    row("int(uint): int", Cost::One, |_, args| int(args)),
    row("int(double): int", Cost::One, |_, args| int(args)),
    row("int(string): int", Cost::Scan, |_, args| int(args)),
    row("int(timestamp): int", Cost::One, |_, args| int(args)),
    row("int(duration): int", Cost::One, |_, args| int(args)),
    row("uint(uint): uint", Cost::One, |_, args| same(args)),
    row("uint(int): uint", Cost::One, |_, args| uint(args)),
    row("uint(double): uint", Cost::One, |_, args| uint(args)),
    row("uint(string): uint", Cost::Scan, |_, args| uint(args)),
    row("double(double): double", Cost::One, |_, args| same(args)),
    row("double(int): double", Cost::One, |_, args| double(args)),
    row("double(uint): double", Cost::One, |_, args| double(args)),
    row("double(string): double", Cost::Scan, |_, args| double(args)),
    row("bool(bool): bool", Cost::One, |_, args| same(args)),
    row("bool(string): bool", Cost::Scan, |_, args| match args {
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed("string", "bool")),
        },
        _ => unfit(),
    }),
    row("bytes(bytes): bytes", Cost::One, |_, args| same(args)),
    row("bytes(string): bytes", Cost::Scan, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => unfit(),
    }),
    row("string(string): string", Cost::One, |_, args| same(args)),
    row("string(bool): string", Cost::One, |_, args| string(args)),
    row("string(int): string", Cost::One, |_, args| string(args)),
    row("string(uint): string", Cost::One, |_, args| string(args)),
    row("string(double): string", Cost::One, |_, args| string(args)),
    row("string(timestamp): string", Cost::One, |_, args| string(args)),
    row("string(duration): string", Cost::One, |_, args| string(args)),
    row("string(net.IP): string", Cost::One, |_, args| string(args)),
    row("string(net.CIDR): string", Cost::One, |_, args| string(args)),
    row("string(bytes): string", Cost::Scan, |_, args| match args {
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned().into()),
            Err(_) => Err(EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")),
        },
        _ => unfit(),
    }),
];

fn failed(from: &str, to: &str) -> EvalError {
    EvalError::Failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn same<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    args.first().cloned().ok_or_else(EvalError::no_overload)
}

fn int<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(match args {
        [Value::Uint(n)] => i64::try_from(*n).map_err(|_| overflow())?,
        // Both ends are excluded, because a double next to them may have been rounded to them.
        #[expect(clippy::cast_possible_truncation, reason = "within the range of the type")]
        [Value::Double(n)] if n.abs() < 9_223_372_036_854_775_807.0 => *n as i64,
        [Value::Double(_)] => return Err(overflow()),
        [Value::String(text)] => text.parse().map_err(|_| failed("string", "int"))?,
        [Value::Timestamp(time)] => times::unix(*time),
        [Value::Duration(span)] => span.nanos(),
        _ => return unfit(),
    }))
}

fn uint<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let too_large = || EvalError::failed("unsigned integer overflow");
    Ok(Value::Uint(match args {
        [Value::Int(n)] => u64::try_from(*n).map_err(|_| too_large())?,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range of the type")]
        [Value::Double(n)] if *n >= 0.0 && *n < 18_446_744_073_709_551_615.0 => *n as u64,
        [Value::Double(_)] => return Err(too_large()),
        [Value::String(text)] => {
            let digits = Some(&**text).filter(|text| !text.starts_with('+'));
            digits.and_then(|text| text.parse().ok()).ok_or_else(|| failed("string", "uint"))?
        }
        _ => return unfit(),
    }))
}

fn double<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Double(match args {
        #[expect(clippy::cast_precision_loss, reason = "that is what the conversion does")]
        [Value::Int(n)] => *n as f64,
        #[expect(clippy::cast_precision_loss, reason = "that is what the conversion does")]
        [Value::Uint(n)] => *n as f64,
        [Value::String(text)] => text.parse().map_err(|_| failed("string", "double"))?,
        _ => return unfit(),
    }))
}

fn string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value] => Ok(text(value).into()),
        _ => unfit(),
    }
}

/// Returns a scalar in the form of `string()` and error texts; the type's name for any other value.
pub(super) fn text(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => n.to_string(),
        Value::Double(n) => shortest(*n),
        Value::String(text) => text.to_string(),
        Value::Timestamp(time) => times::show(*time),
        Value::Duration(span) => times::show_span(*span),
        Value::Type(ty) => ty.name().to_owned(),
        Value::Opaque(Opaque::Ip(ip)) => ip.to_string(),
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.to_string(),
        other => other.type_of().name().to_owned(),
    }
}

/// The number of digits before the decimal point up to which Go writes a number without an exponent.
const MAX_PLAIN_DIGITS: i32 = 6;

/// Formats a double with the fewest digits that identify it, as Go's `%g` does.
pub(super) fn shortest(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{n:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..MAX_PLAIN_DIGITS).contains(&exponent) {
        return n.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

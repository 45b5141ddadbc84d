//! Resolves plain scalars by YAML 1.1, as go-yaml v2 does.

use oarlock_schema::{Str, Value};

use crate::json::number;

/// Returns the value of a plain scalar without a tag. Infinities and NaN give a [`Value::Number`] with a text that JSON cannot hold.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Number(Str::const_new("NaN")),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Number(Str::const_new("+Inf")),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Number(Str::const_new("-Inf")),
        _ => {}
    }
    let first = text.bytes().next().unwrap_or(b'a');
    let number = match first {
        b'.' => float(text),
        // A date stays text; no other text with such a beginning is a number either.
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            whole(&digits).or_else(|| float(&digits))
        }
        _ => None,
    };
    number.unwrap_or_else(|| Value::from(text))
}

/// Parses a whole number: decimal, `0x`, `0o` or `0b`, or octal with a leading zero.
fn whole(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some(two) if two.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    let signed = if negative { 0_i128 - i128::from(size) } else { i128::from(size) };
    match i64::try_from(signed) {
        Ok(n) => Some(Value::Int(n)),
        // Go represents a number that fits only an unsigned type exactly.
        Err(_) if !negative => Some(Value::Number(Str::from(size.to_string()))),
        Err(_) => None,
    }
}

/// Parses a decimal fraction, with an optional exponent.
fn float(text: &str) -> Option<Value> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = body.split_once(['e', 'E']).unwrap_or((body, "0"));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = digits(before) && digits(after) && !(before.is_empty() && after.is_empty());
    if !shaped || exponent.is_empty() || !digits(exponent) {
        return None;
    }
    let n: f64 = text.parse().ok()?;
    n.is_finite().then(|| number::float(n))
}

#[cfg(test)]
mod tests {
    use super::plain;
    use oarlock_schema::{Str, Value};

    #[test]
    fn reads_scalars_as_go_yaml() {
        for (text, want) in [
            ("yes", Value::Bool(true)),
            ("Off", Value::Bool(false)),
            ("yEs", Value::from("yEs")),
            ("~", Value::Null),
            ("12", Value::Int(12)),
            ("-0x1F", Value::Int(-31)),
            ("0777", Value::Int(511)),
            ("0o17", Value::Int(15)),
            ("08", Value::Int(8)),
            ("0b101", Value::Int(5)),
            ("1_000", Value::Int(1000)),
            ("+5", Value::Int(5)),
            ("18446744073709551615", Value::Number(Str::new("18446744073709551615"))),
            ("1.5", Value::Number(Str::new("1.5"))),
            (".5", Value::Number(Str::new("0.5"))),
            ("1e3", Value::Int(1000)),
            ("1.", Value::Int(1)),
            ("2001-01-01", Value::from("2001-01-01")),
            ("10.0.0.1", Value::from("10.0.0.1")),
            ("1:30", Value::from("1:30")),
            ("-", Value::from("-")),
            (".", Value::from(".")),
            ("0x", Value::from("0x")),
            ("500m", Value::from("500m")),
            ("infinity", Value::from("infinity")),
        ] {
            assert_eq!(plain(text), want, "{text}");
        }
    }
}

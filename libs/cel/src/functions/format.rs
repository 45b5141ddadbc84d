//! The CEL function `format` of strings, which fills a pattern with values.

use std::fmt::Write as _;

use super::conversions::text;
use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{Key, Value};

pub(super) const ROWS: &[Row] = &[row("string.format(list(dyn)): string", Cost::Scan, format)];

/// The number of decimals of a number whose clause (such as `%f`) states no precision.
const DEFAULT_PRECISION: usize = 6;

fn format<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::String(layout), Value::List(values)] = args else { return unfit() };
    let (mut out, mut rest, mut used) = (String::new(), &**layout, 0);
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let precision = precision(&mut rest)?;
        let clause = rest.chars().next().ok_or_else(|| EvalError::failed("unexpected end of string"))?;
        rest = rest.get(clause.len_utf8()..).unwrap_or_default();
        let value = values.get(used).ok_or_else(|| EvalError::Failed(format!("index {used} out of range")))?;
        used += 1;
        let shown = show(cx, clause, precision, &value)?;
        cx.charge_text(shown.len())?;
        out.push_str(&shown);
    }
    if used < values.len() {
        let have = values.len();
        let why = format!("too many arguments supplied to string.format (expected {used}, got {have})");
        return Err(EvalError::Failed(why));
    }
    out.push_str(rest);
    Ok(out.into())
}

/// Reads the precision, such as `.3`, before a clause.
fn precision(rest: &mut &str) -> Result<Option<usize>, EvalError> {
    let Some(after) = rest.strip_prefix('.') else { return Ok(None) };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let wrong = |why: &str| {
        let why = format!("could not parse formatting clause: error while parsing precision: {why}");
        Err(EvalError::Failed(why))
    };
    if digits == 0 || digits == after.len() {
        return wrong("could not find end of precision specifier");
    }
    let number = after.get(..digits).and_then(|text| text.parse().ok()).filter(|n| *n <= 1000);
    *rest = after.get(digits..).unwrap_or_default();
    match number {
        Some(number) => Ok(Some(number)),
        None => wrong("precision is too large"),
    }
}

fn show<'a>(
    cx: &mut Context<'_, 'a>,
    clause: char,
    precision: Option<usize>,
    value: &Value<'a>,
) -> Result<String, EvalError> {
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    Ok(match (clause, value) {
        ('s', value) => {
            let mut out = String::new();
            plain(cx, value, &mut out, true)?;
            out
        }
        ('d', Value::Int(_) | Value::Uint(_)) => text(value),
        ('d', _) => return wrong("decimal clause can only be used on integers", value),
        ('f', Value::Double(n)) => fixed(*n, precision),
        ('f', _) => return wrong("fixed-point clause can only be used on doubles", value),
        ('e', Value::Double(n)) => scientific(*n),
        ('e', _) => return wrong("scientific clause can only be used on doubles", value),
        ('b', Value::Bool(b)) => u8::from(*b).to_string(),
        ('b', Value::Int(n)) => signed(*n, |n| format!("{n:b}")),
        ('b', Value::Uint(n)) => format!("{n:b}"),
        ('b', _) => return wrong("only integers and bools can be formatted as binary", value),
        ('o', Value::Int(n)) => signed(*n, |n| format!("{n:o}")),
        ('o', Value::Uint(n)) => format!("{n:o}"),
        ('o', _) => return wrong("octal clause can only be used on integers", value),
        ('x' | 'X', value) => {
            let lower = match value {
                Value::Int(n) => signed(*n, |n| format!("{n:x}")),
                Value::Uint(n) => format!("{n:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => {
                    return wrong("only integers, byte buffers, and strings can be formatted as hex", value);
                }
            };
            if clause == 'X' { lower.to_ascii_uppercase() } else { lower }
        }
        (other, _) => {
            let why = format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"");
            return Err(EvalError::Failed(why));
        }
    })
}

fn wrong<T>(rule: &str, value: &Value<'_>) -> Result<T, EvalError> {
    let given = value.type_of();
    Err(EvalError::Failed(format!("error during formatting: {rule}, was given {}", given.name())))
}

fn signed(n: i64, digits: fn(u64) -> String) -> String {
    format!("{}{}", if n < 0 { "-" } else { "" }, digits(n.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Formats `%s`. Texts within lists and maps are quoted, and maps are sorted by the form of their keys.
fn plain<'a>(cx: &mut Context<'_, 'a>, value: &Value<'a>, out: &mut String, top: bool) -> Result<(), EvalError> {
    cx.charge_text(value.size())?;
    match value {
        Value::String(text) if top => out.push_str(text),
        Value::String(text) => out.push_str(&oarlock_meta::quote::quote(text)),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                plain(cx, &item, out, false)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.iter() {
                let mut shown = String::new();
                plain(cx, &Key::value(&key), &mut shown, false)?;
                shown.push(':');
                plain(cx, &value, &mut shown, false)?;
                entries.push(shown);
            }
            entries.sort_unstable();
            // Writing to a String cannot fail.
            let _ = write!(out, "{{{}}}", entries.join(", "));
        }
        Value::Optional(_) | Value::Opaque(_) => {
            return wrong(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
                 timestamps",
                value,
            );
        }
        scalar => out.push_str(&text(scalar)),
    }
    Ok(())
}

fn no_number(n: f64) -> Option<&'static str> {
    if n.is_nan() {
        return Some("NaN");
    }
    n.is_infinite().then_some(if n > 0.0 { "∞" } else { "-∞" })
}

/// Formats a number with grouped thousands, because upstream formats for English.
fn fixed(n: f64, precision: usize) -> String {
    if let Some(shown) = no_number(n) {
        return shown.to_owned();
    }
    let shown = format!("{n:.precision$}");
    let (sign, shown) = shown.strip_prefix('-').map_or(("", shown.as_str()), |rest| ("-", rest));
    let (whole, fraction) = shown.split_once('.').map_or((shown, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = sign.to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats a number with an exponent, always with the same number of decimals: upstream ignores the requested precision.
fn scientific(n: f64) -> String {
    if let Some(shown) = no_number(n) {
        return shown.to_owned();
    }
    let shown = format!("{n:.DEFAULT_PRECISION$e}");
    let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let raised: String = format!("{exponent:0>2}").chars().map(superscript).collect();
    format!("{digits}×10{sign}{raised}")
}

fn superscript(digit: char) -> char {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let place = digit.to_digit(10).and_then(|d| usize::try_from(d).ok());
    place.and_then(|place| RAISED.get(place)).copied().unwrap_or(digit)
}

//! Equality and order of values.

use std::cmp::Ordering;

use super::Value;
use crate::error::EvalError;

/// Whether two values are equal. Numbers of different types compare by value; NaN equals nothing; values of different kinds are not equal.
#[must_use]
pub fn equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    equal_counted(a, b, &mut 0)
}

/// Compares like [`equal`], and counts the visited values and characters.
pub(crate) fn equal_counted(a: &Value<'_>, b: &Value<'_>, looked_at: &mut usize) -> bool {
    *looked_at += 1;
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal_counted(&a, &b, looked_at))
        }
        (Value::Map(a), Value::Map(b)) => {
            // The maps may borrow from different objects, so keys are looked up by value.
            a.len() == b.len()
                && a.iter().all(|(key, value)| {
                    let other = match &key {
                        super::Key::String(text) => b.field(text),
                        _ => b.iter().find(|(have, _)| *have == key).map(|(_, value)| value),
                    };
                    other.is_some_and(|other| equal_counted(&value, &other, looked_at))
                })
        }
        (Value::Type(a), Value::Type(b)) => a.same_name(b),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal_counted(a, b, looked_at),
            _ => false,
        },
        (Value::Opaque(a), Value::Opaque(b)) => a == b,
        _ => {
            *looked_at += a.size().min(b.size());
            compare(a, b) == Some(Ordering::Equal)
        }
    }
}

/// Returns the order of two values; `None` if there is none, as for values of different kinds and NaN.
#[must_use]
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    use Value::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    Some(match (a, b) {
        (Bool(a), Bool(b)) => a.cmp(b),
        (Int(a), Int(b)) => a.cmp(b),
        (Uint(a), Uint(b)) => a.cmp(b),
        (Double(a), Double(b)) => return a.partial_cmp(b),
        (Int(a), Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Uint(a), Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Int(a), Double(b)) => return whole_to_double((*a).into(), *b),
        (Uint(a), Double(b)) => return whole_to_double((*a).into(), *b),
        (Double(a), Int(b)) => return whole_to_double((*b).into(), *a).map(Ordering::reverse),
        (Double(a), Uint(b)) => return whole_to_double((*b).into(), *a).map(Ordering::reverse),
        (String(a), String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        (Duration(a), Duration(b)) => a.cmp(b),
        _ => return None,
    })
}

/// Compares a whole number with a double, as doubles (cel-go's rule).
#[expect(clippy::cast_precision_loss, reason = "the rule of the language's reference implementation")]
fn whole_to_double(whole: i128, double: f64) -> Option<Ordering> {
    (whole as f64).partial_cmp(&double)
}

/// Sorts values by their keys; equal ones keep their order.
pub(crate) fn sort_by<'a>(mut pairs: Vec<(Value<'a>, Value<'a>)>) -> Result<Vec<Value<'a>>, EvalError> {
    let first = pairs.first().map(|(key, _)| key.clone());
    if let Some(first) = first
        && pairs.iter().any(|(key, _)| compare(&first, key).is_none() && !matches!(key, Value::Double(_)))
    {
        return Err(EvalError::no_overload());
    }
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(pairs.into_iter().map(|(_, value)| value).collect())
}

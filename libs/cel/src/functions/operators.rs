//! Operators: equality, order, membership, indexing, and the type of a value.

use std::cmp::Ordering;

use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{Key, Value, compare};

pub(super) const ROWS: &[Row] = &[
    row("_==_(A, A): bool", Cost::One, |cx, args| equality(cx, args, true)),
    row("_!=_(A, A): bool", Cost::One, |cx, args| equality(cx, args, false)),
    row("@in(A, list(A)): bool", Cost::One, in_list),
    row("@in(A, map(A, B)): bool", Cost::One, in_map),
    row("_[_](list(A), int): A", Cost::One, at_index),
    row("_[_](map(A, B), A): B", Cost::One, at_key),
    row("_[_](optional_type(list(V)), int): optional_type(V)", Cost::One, optionally),
    row("_[_](optional_type(map(K, V)), K): optional_type(V)", Cost::One, optionally),
    row("_[?_](list(V), int): optional_type(V)", Cost::One, optionally),
    row("_[?_](map(K, V), K): optional_type(V)", Cost::One, optionally),
    row("_[?_](optional_type(list(V)), int): optional_type(V)", Cost::One, optionally),
    row("_[?_](optional_type(map(K, V)), K): optional_type(V)", Cost::One, optionally),
    row("!_(bool): bool", Cost::One, |_, args| match args {
        [Value::Bool(b)] => Ok(Value::Bool(!b)),
        _ => unfit(),
    }),
    row("size(string): int", Cost::Scan, size),
    row("size(bytes): int", Cost::One, size),
    row("size(list(A)): int", Cost::One, size),
    row("size(map(A, B)): int", Cost::One, size),
    row("string.size(): int", Cost::Scan, size),
    row("bytes.size(): int", Cost::One, size),
    row("list(A).size(): int", Cost::One, size),
    row("map(A, B).size(): int", Cost::One, size),
    row("type(A): type(A)", Cost::One, |_, args| match args {
        [value] => Ok(Value::Type(value.type_of())),
        _ => unfit(),
    }),
    row("dyn(A): dyn", Cost::One, |_, args| args.first().cloned().ok_or_else(EvalError::no_overload)),
    row("_<_(bool, bool): bool", Cost::One, less),
    row("_<_(int, int): bool", Cost::One, less),
    row("_<_(int, uint): bool", Cost::One, less),
    row("_<_(int, double): bool", Cost::One, less),
    row("_<_(uint, uint): bool", Cost::One, less),
    row("_<_(uint, int): bool", Cost::One, less),
    row("_<_(uint, double): bool", Cost::One, less),
    row("_<_(double, double): bool", Cost::One, less),
    row("_<_(double, int): bool", Cost::One, less),
    row("_<_(double, uint): bool", Cost::One, less),
    row("_<_(string, string): bool", Cost::Scan, less),
    row("_<_(bytes, bytes): bool", Cost::Scan, less),
    row("_<_(timestamp, timestamp): bool", Cost::One, less),
    row("_<_(duration, duration): bool", Cost::One, less),
    row("_<=_(bool, bool): bool", Cost::One, at_most),
    row("_<=_(int, int): bool", Cost::One, at_most),
    row("_<=_(int, uint): bool", Cost::One, at_most),
    row("_<=_(int, double): bool", Cost::One, at_most),
    row("_<=_(uint, uint): bool", Cost::One, at_most),
    row("_<=_(uint, int): bool", Cost::One, at_most),
    row("_<=_(uint, double): bool", Cost::One, at_most),
    row("_<=_(double, double): bool", Cost::One, at_most),
    row("_<=_(double, int): bool", Cost::One, at_most),
    row("_<=_(double, uint): bool", Cost::One, at_most),
    row("_<=_(string, string): bool", Cost::Scan, at_most),
    row("_<=_(bytes, bytes): bool", Cost::Scan, at_most),
    row("_<=_(timestamp, timestamp): bool", Cost::One, at_most),
    row("_<=_(duration, duration): bool", Cost::One, at_most),
    row("_>_(bool, bool): bool", Cost::One, more),
    row("_>_(int, int): bool", Cost::One, more),
    row("_>_(int, uint): bool", Cost::One, more),
    row("_>_(int, double): bool", Cost::One, more),
    row("_>_(uint, uint): bool", Cost::One, more),
    row("_>_(uint, int): bool", Cost::One, more),
    row("_>_(uint, double): bool", Cost::One, more),
    row("_>_(double, double): bool", Cost::One, more),
    row("_>_(double, int): bool", Cost::One, more),
    row("_>_(double, uint): bool", Cost::One, more),
    row("_>_(string, string): bool", Cost::Scan, more),
    row("_>_(bytes, bytes): bool", Cost::Scan, more),
    row("_>_(timestamp, timestamp): bool", Cost::One, more),
    row("_>_(duration, duration): bool", Cost::One, more),
    row("_>=_(bool, bool): bool", Cost::One, at_least),
    row("_>=_(int, int): bool", Cost::One, at_least),
    row("_>=_(int, uint): bool", Cost::One, at_least),
    row("_>=_(int, double): bool", Cost::One, at_least),
    row("_>=_(uint, uint): bool", Cost::One, at_least),
    row("_>=_(uint, int): bool", Cost::One, at_least),
    row("_>=_(uint, double): bool", Cost::One, at_least),
    row("_>=_(double, double): bool", Cost::One, at_least),
    row("_>=_(double, int): bool", Cost::One, at_least),
    row("_>=_(double, uint): bool", Cost::One, at_least),
    row("_>=_(string, string): bool", Cost::Scan, at_least),
    row("_>=_(bytes, bytes): bool", Cost::Scan, at_least),
    row("_>=_(timestamp, timestamp): bool", Cost::One, at_least),
    row("_>=_(duration, duration): bool", Cost::One, at_least),
];

fn equality<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], wanted: bool) -> Result<Value<'a>, EvalError> {
    let [a, b] = args else { return unfit() };
    Ok(Value::Bool(cx.equal(a, b)? == wanted))
}

fn in_list<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [item, Value::List(list)] = args else { return unfit() };
    cx.charge(list.len())?;
    for have in list.iter() {
        if cx.equal(item, &have)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn in_map<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [key, Value::Map(map)] = args else { return unfit() };
    Ok(Value::Bool(Key::of(key).is_some_and(|key| map.get(&key).is_some())))
}

fn at_index<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list), index] = args else { return unfit() };
    let place = whole(index)?;
    let item = usize::try_from(place).ok().and_then(|place| list.get(place));
    item.ok_or_else(|| EvalError::Failed(format!("index out of bounds: {place}")))
}

/// Converts an index, which may be any whole number.
fn whole(index: &Value<'_>) -> Result<i64, EvalError> {
    match index {
        Value::Int(n) => Ok(*n),
        Value::Uint(_) | Value::Double(_) => match Key::of(index) {
            Some(Key::Int(n)) => Ok(n),
            Some(Key::Uint(n)) => Ok(i64::try_from(n).unwrap_or(i64::MAX)),
            _ => Err(EvalError::Failed(format!("unsupported index value {} in list", super::conversions::text(index)))),
        },
        other => Err(EvalError::Failed(format!("unsupported index type '{}' in list", other.type_of().name()))),
    }
}

fn at_key<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::Map(map), key] = args else { return unfit() };
    let found = Key::of(key).and_then(|key| map.get(&key));
    found.ok_or_else(|| EvalError::no_key(super::conversions::text(key)))
}

/// Indexes with `none` for a missing item, whether or not the list or map is an optional itself.
fn optionally<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [operand, key] = args else { return unfit() };
    let inner = match operand {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        plain => plain,
    };
    let found = match inner {
        Value::List(list) => usize::try_from(whole(key)?).ok().and_then(|place| list.get(place)),
        Value::Map(map) => Key::of(key).and_then(|key| map.get(&key)),
        _ => return unfit(),
    };
    Ok(found.map_or(Value::Optional(None), Value::some))
}

fn size<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text)] => Ok(Value::count(text.chars().count())),
        [value] => Ok(Value::count(value.size())),
        _ => unfit(),
    }
}

fn order<'a>(args: &[Value<'a>], wanted: fn(Ordering) -> bool) -> Result<Value<'a>, EvalError> {
    let [a, b] = args else { return unfit() };
    // Among comparable values only NaN has no order.
    Ok(Value::Bool(compare(a, b).is_some_and(wanted)))
}

fn less<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    order(args, Ordering::is_lt)
}

fn at_most<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    order(args, Ordering::is_le)
}

fn more<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    order(args, Ordering::is_gt)
}

fn at_least<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    order(args, Ordering::is_ge)
}

//! Functions of optionals.

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("optional.of(V): optional_type(V)", Cost::One, |_, args| match args {
        [value] => Ok(Value::some(value.clone())),
        _ => unfit(),
    }),
    row("optional.none(): optional_type(V)", Cost::One, |_, _| Ok(Value::Optional(None))),
    row("optional.ofNonZeroValue(V): optional_type(V)", Cost::One, |_, args| match args {
        [value] if is_zero(value) => Ok(Value::Optional(None)),
        [value] => Ok(Value::some(value.clone())),
        _ => unfit(),
    }),
    row("optional_type(V).hasValue(): bool", Cost::One, |_, args| match args {
        [Value::Optional(held)] => Ok(Value::Bool(held.is_some())),
        _ => unfit(),
    }),
    row("optional_type(V).value(): V", Cost::One, |_, args| match args {
        [Value::Optional(Some(held))] => Ok((**held).clone()),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => unfit(),
    }),
    row("optional_type(V).or(optional_type(V)): optional_type(V)", Cost::One, |_, args| match args {
        [Value::Optional(None), other] => Ok(other.clone()),
        [held, _] => Ok(held.clone()),
        _ => unfit(),
    }),
    row("optional_type(V).orValue(V): V", Cost::One, |_, args| match args {
        [Value::Optional(Some(held)), _] => Ok((**held).clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => unfit(),
    }),
    row("optional.unwrap(list(optional_type(V))): list(V)", Cost::Scan, |_, args| unwrap(args)),
    row("list(optional_type(V)).unwrapOpt(): list(V)", Cost::Scan, |_, args| unwrap(args)),
    row("list(V).first(): optional_type(V)", Cost::One, |_, args| match args {
        [Value::List(list)] => Ok(list.get(0).map_or(Value::Optional(None), Value::some)),
        _ => unfit(),
    }),
    row("list(V).last(): optional_type(V)", Cost::One, |_, args| match args {
        [Value::List(list)] => Ok(list.iter().next_back().map_or(Value::Optional(None), Value::some)),
        _ => unfit(),
    }),
];

fn unwrap<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    let mut held = Vec::new();
    for item in list.iter() {
        match item {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => held.push((*value).clone()),
            _ => return unfit(),
        }
    }
    Ok(Value::List(List::new(held)?))
}

/// Whether a value is the zero value of its type.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) => true,
        Value::Double(n) => *n == 0.0,
        Value::Duration(span) => span.nanos() == 0,
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
        _ => false,
    }
}

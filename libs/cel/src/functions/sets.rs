//! Set functions of lists.

use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("sets.contains(list(T), list(T)): bool", Cost::Product, |cx, args| {
        let [Value::List(all), Value::List(part)] = args else { return unfit() };
        Ok(Value::Bool(contains(cx, all, part)?))
    }),
    row("sets.equivalent(list(T), list(T)): bool", Cost::Product, |cx, args| {
        let [Value::List(a), Value::List(b)] = args else { return unfit() };
        Ok(Value::Bool(contains(cx, a, b)? && contains(cx, b, a)?))
    }),
    row("sets.intersects(list(T), list(T)): bool", Cost::Product, |cx, args| {
        let [Value::List(a), Value::List(b)] = args else { return unfit() };
        for item in a.iter() {
            if has(cx, b, &item)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
];

fn contains<'a>(cx: &mut Context<'_, 'a>, all: &List<'a>, part: &List<'a>) -> Result<bool, EvalError> {
    for item in part.iter() {
        if !has(cx, all, &item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has<'a>(cx: &mut Context<'_, 'a>, list: &List<'a>, wanted: &Value<'a>) -> Result<bool, EvalError> {
    for item in list.iter() {
        if cx.equal(&item, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

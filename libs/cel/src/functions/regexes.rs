//! Functions of regular expressions.

use std::sync::Arc;

use regex::Regex;

use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("matches(string, string): bool", Cost::Product, matches),
    row("string.matches(string): bool", Cost::Product, matches),
    row("string.find(string): string", Cost::Product, |cx, args| {
        let [Value::String(text), Value::String(pattern)] = args else { return unfit() };
        let found = regex(cx, pattern)?.find(text).map_or("", |found| found.as_str());
        Ok(found.to_owned().into())
    }),
    row("string.findAll(string): list(string)", Cost::Product, |cx, args| find_all(cx, args, -1)),
    row("string.findAll(string, int): list(string)", Cost::Product, |cx, args| match args {
        [rest @ .., Value::Int(most)] => find_all(cx, rest, *most),
        _ => unfit(),
    }),
];

fn regex(cx: &Context<'_, '_>, pattern: &str) -> Result<Arc<Regex>, EvalError> {
    cx.patterns.get(pattern).map_err(EvalError::Failed)
}

fn matches<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(pattern)] = args else { return unfit() };
    Ok(Value::Bool(regex(cx, pattern)?.is_match(text)))
}

fn find_all<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], most: i64) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(pattern)] = args else { return unfit() };
    let regex = regex(cx, pattern)?;
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(usize::try_from(most).unwrap_or(usize::MAX)) {
        cx.charge(1)?;
        found.push(part.as_str().to_owned().into());
    }
    Ok(Value::List(List::new(found)?))
}

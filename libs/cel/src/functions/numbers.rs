//! Arithmetic: an overflow is an error, never another number.

use std::sync::Arc;

use oarlock_meta::GoDuration;

use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("_+_(int, int): int", Cost::One, |_, args| int(args, i64::checked_add)),
    row("_-_(int, int): int", Cost::One, |_, args| int(args, i64::checked_sub)),
    row("_*_(int, int): int", Cost::One, |_, args| int(args, i64::checked_mul)),
    row("_/_(int, int): int", Cost::One, |_, args| {
        not_zero(args, "division by zero")?;
        int(args, i64::checked_div)
    }),
    row("_%_(int, int): int", Cost::One, |_, args| {
        not_zero(args, "modulus by zero")?;
        int(args, i64::checked_rem)
    }),
    row("_+_(uint, uint): uint", Cost::One, |_, args| uint(args, u64::checked_add)),
    row("_-_(uint, uint): uint", Cost::One, |_, args| uint(args, u64::checked_sub)),
    row("_*_(uint, uint): uint", Cost::One, |_, args| uint(args, u64::checked_mul)),
    row("_/_(uint, uint): uint", Cost::One, |_, args| {
        not_zero(args, "division by zero")?;
        uint(args, u64::checked_div)
    }),
    row("_%_(uint, uint): uint", Cost::One, |_, args| {
        not_zero(args, "modulus by zero")?;
        uint(args, u64::checked_rem)
    }),
    row("_+_(double, double): double", Cost::One, |_, args| double(args, |a, b| a + b)),
    row("_-_(double, double): double", Cost::One, |_, args| double(args, |a, b| a - b)),
    row("_*_(double, double): double", Cost::One, |_, args| double(args, |a, b| a * b)),
    row("_/_(double, double): double", Cost::One, |_, args| double(args, |a, b| a / b)),
    row("-_(int): int", Cost::One, |_, args| match args {
        [Value::Int(n)] => n.checked_neg().map(Value::Int).ok_or_else(overflow),
        _ => unfit(),
    }),
    row("-_(double): double", Cost::One, |_, args| match args {
        [Value::Double(n)] => Ok(Value::Double(-n)),
        _ => unfit(),
    }),
    row("_+_(string, string): string", Cost::Scan, |_, args| match args {
        [Value::String(a), Value::String(b)] => Ok(format!("{}{}", &**a, &**b).into()),
        _ => unfit(),
    }),
    row("_+_(bytes, bytes): bytes", Cost::Scan, |_, args| match args {
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes(Arc::from([&**a, &**b].concat()))),
        _ => unfit(),
    }),
    row("_+_(list(A), list(A)): list(A)", Cost::Scan, |_, args| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::List(List::new(a.iter().chain(b.iter()).collect())?)),
        _ => unfit(),
    }),
    row("_+_(duration, duration): duration", Cost::One, |_, args| span(args, i64::checked_add)),
    row("_-_(duration, duration): duration", Cost::One, |_, args| span(args, i64::checked_sub)),
];

pub(super) fn overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn int<'a>(args: &[Value<'a>], op: fn(i64, i64) -> Option<i64>) -> Result<Value<'a>, EvalError> {
    let [Value::Int(a), Value::Int(b)] = args else { return unfit() };
    op(*a, *b).map(Value::Int).ok_or_else(overflow)
}

fn uint<'a>(args: &[Value<'a>], op: fn(u64, u64) -> Option<u64>) -> Result<Value<'a>, EvalError> {
    let [Value::Uint(a), Value::Uint(b)] = args else { return unfit() };
    op(*a, *b).map(Value::Uint).ok_or_else(|| EvalError::failed("unsigned integer overflow"))
}

fn double<'a>(args: &[Value<'a>], op: fn(f64, f64) -> f64) -> Result<Value<'a>, EvalError> {
    let [Value::Double(a), Value::Double(b)] = args else { return unfit() };
    Ok(Value::Double(op(*a, *b)))
}

fn span<'a>(args: &[Value<'a>], op: fn(i64, i64) -> Option<i64>) -> Result<Value<'a>, EvalError> {
    let [Value::Duration(a), Value::Duration(b)] = args else { return unfit() };
    op(a.nanos(), b.nanos()).map(|n| Value::Duration(GoDuration::from_nanos(n))).ok_or_else(overflow)
}

fn not_zero(args: &[Value<'_>], why: &str) -> Result<(), EvalError> {
    match args {
        [_, Value::Int(0) | Value::Uint(0)] => Err(EvalError::failed(why)),
        _ => Ok(()),
    }
}

/// Returns the sum of a list of one kind of number; fails for any other list.
pub(super) fn sum<'a>(cx: &mut Context<'_, 'a>, items: &List<'a>) -> Result<Value<'a>, EvalError> {
    let mut items = items.iter();
    // The type of an empty sum is unknown; cel-go returns an int.
    let Some(mut total) = items.next() else { return Ok(Value::Int(0)) };
    for item in items {
        cx.charge(1)?;
        let pair = [total, item];
        total = match &pair {
            [Value::Int(_), _] => int(&pair, i64::checked_add)?,
            [Value::Uint(_), _] => uint(&pair, u64::checked_add)?,
            [Value::Double(_), _] => double(&pair, |a, b| a + b)?,
            [Value::Duration(_), _] => span(&pair, i64::checked_add)?,
            _ => return unfit(),
        };
    }
    match total {
        Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) => Ok(total),
        _ => unfit(),
    }
}

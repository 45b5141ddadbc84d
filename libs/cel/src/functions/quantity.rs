//! Functions of quantities.

use std::cmp::Ordering;
use std::sync::Arc;

use oarlock_meta::Quantity;
use oarlock_meta::quantity::Format;

use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

pub(super) const ROWS: &[Row] = &[
    row("quantity(string): kubernetes.Quantity", Cost::Scan, |_, args| match args {
        [Value::String(text)] => Quantity::parse(text).map(value).map_err(|why| EvalError::Failed(why.to_string())),
        _ => unfit(),
    }),
    row("isQuantity(string): bool", Cost::Scan, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => unfit(),
    }),
    row("sign(kubernetes.Quantity): int", Cost::One, |_, args| one(args, |q| Ok(Value::Int(q.signum().into())))),
    row("kubernetes.Quantity.isInteger(): bool", Cost::One, |_, args| {
        one(args, |q| Ok(Value::Bool(whole(q).is_some())))
    }),
    row("kubernetes.Quantity.asInteger(): int", Cost::One, |_, args| {
        one(args, |q| whole(q).map(Value::Int).ok_or_else(|| EvalError::failed("cannot convert value to integer")))
    }),
    row("kubernetes.Quantity.asApproximateFloat(): double", Cost::One, |_, args| {
        one(args, |q| Ok(Value::Double(q.as_f64())))
    }),
    row("kubernetes.Quantity.add(kubernetes.Quantity): kubernetes.Quantity", Cost::One, |_, args| {
        two(args, |a, b| value(a.plus(b)))
    }),
    row("kubernetes.Quantity.add(int): kubernetes.Quantity", Cost::One, |_, args| two(args, |a, b| value(a.plus(b)))),
    row("kubernetes.Quantity.sub(kubernetes.Quantity): kubernetes.Quantity", Cost::One, |_, args| {
        two(args, |a, b| value(a.minus(b)))
    }),
    row("kubernetes.Quantity.sub(int): kubernetes.Quantity", Cost::One, |_, args| two(args, |a, b| value(a.minus(b)))),
    row("kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool", Cost::One, |_, args| {
        two(args, |a, b| Value::Bool(a > b))
    }),
    row("kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool", Cost::One, |_, args| {
        two(args, |a, b| Value::Bool(a < b))
    }),
    row("kubernetes.Quantity.compareTo(kubernetes.Quantity): int", Cost::One, |_, args| {
        two(args, |a, b| Value::Int(sign(a.cmp(b))))
    }),
];

pub(super) fn sign(order: Ordering) -> i64 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

fn value<'a>(quantity: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(Arc::new(quantity)))
}

/// Returns the amount if it is whole and fits in 64 bits.
fn whole(quantity: &Quantity) -> Option<i64> {
    let n = quantity.value();
    (Quantity::new(n, Format::DecimalSi) == *quantity).then_some(n)
}

fn one<'a>(
    args: &[Value<'a>],
    read: impl Fn(&Quantity) -> Result<Value<'a>, EvalError>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque::Quantity(quantity))] => read(quantity),
        _ => unfit(),
    }
}

fn two<'a>(args: &[Value<'a>], join: impl Fn(&Quantity, &Quantity) -> Value<'a>) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque::Quantity(a)), Value::Opaque(Opaque::Quantity(b))] => Ok(join(a, b)),
        [Value::Opaque(Opaque::Quantity(a)), Value::Int(b)] => Ok(join(a, &Quantity::new(*b, Format::DecimalSi))),
        _ => unfit(),
    }
}

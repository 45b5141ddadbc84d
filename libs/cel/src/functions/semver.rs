//! Functions of semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use super::quantity::sign;
use super::{Cost, Row, row, unfit};
use crate::error::EvalError;
use crate::value::{Opaque, Semver, Value};

pub(super) const ROWS: &[Row] = &[
    row("semver(string): kubernetes.Semver", Cost::Scan, |_, args| make(args, false)),
    row("semver(string, bool): kubernetes.Semver", Cost::Scan, |_, args| match args {
        [text, Value::Bool(lenient)] => make(std::slice::from_ref(text), *lenient),
        _ => unfit(),
    }),
    row("isSemver(string): bool", Cost::Scan, |_, args| Ok(Value::Bool(make(args, false).is_ok()))),
    row("isSemver(string, bool): bool", Cost::Scan, |_, args| match args {
        [text, Value::Bool(lenient)] => Ok(Value::Bool(make(std::slice::from_ref(text), *lenient).is_ok())),
        _ => unfit(),
    }),
    row("kubernetes.Semver.major(): int", Cost::One, |_, args| number(args, 0)),
    row("kubernetes.Semver.minor(): int", Cost::One, |_, args| number(args, 1)),
    row("kubernetes.Semver.patch(): int", Cost::One, |_, args| number(args, 2)),
    row("kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool", Cost::One, |_, args| {
        order(args).map(|order| Value::Bool(order.is_gt()))
    }),
    row("kubernetes.Semver.isLessThan(kubernetes.Semver): bool", Cost::One, |_, args| {
        order(args).map(|order| Value::Bool(order.is_lt()))
    }),
    row("kubernetes.Semver.compareTo(kubernetes.Semver): int", Cost::One, |_, args| {
        order(args).map(|order| Value::Int(sign(order)))
    }),
];

fn make<'a>(args: &[Value<'a>], lenient: bool) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return unfit() };
    let version = Semver::parse(text, lenient).map_err(EvalError::Failed)?;
    Ok(Value::Opaque(Opaque::Semver(Arc::new(version))))
}

fn number<'a>(args: &[Value<'a>], place: usize) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque::Semver(version))] = args else { return unfit() };
    let number = version.numbers.get(place).and_then(|n| i64::try_from(*n).ok());
    number.map_or_else(unfit, |n| Ok(Value::Int(n)))
}

fn order(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Opaque(Opaque::Semver(a)), Value::Opaque(Opaque::Semver(b))] => Ok(a.order(b)),
        _ => unfit(),
    }
}

//! Functions of lists, from Kubernetes' and cel-go's libraries.

use std::cmp::Ordering;

use super::{Cost, Row, numbers, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::limits;
use crate::value::{List, Value, compare, sort_by};

pub(super) const ROWS: &[Row] = &[
    row("list(int).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(uint).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(double).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(bool).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(duration).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(timestamp).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(string).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(bytes).isSorted(): bool", Cost::Scan, is_sorted),
    row("list(int).sum(): int", Cost::One, sum),
    row("list(uint).sum(): uint", Cost::One, sum),
    row("list(double).sum(): double", Cost::One, sum),
    row("list(duration).sum(): duration", Cost::One, sum),
    row("list(int).min(): int", Cost::Scan, min),
    row("list(uint).min(): uint", Cost::Scan, min),
    row("list(double).min(): double", Cost::Scan, min),
    row("list(bool).min(): bool", Cost::Scan, min),
    row("list(duration).min(): duration", Cost::Scan, min),
    row("list(timestamp).min(): timestamp", Cost::Scan, min),
    row("list(string).min(): string", Cost::Scan, min),
    row("list(bytes).min(): bytes", Cost::Scan, min),
    row("list(int).max(): int", Cost::Scan, max),
    row("list(uint).max(): uint", Cost::Scan, max),
    row("list(double).max(): double", Cost::Scan, max),
    row("list(bool).max(): bool", Cost::Scan, max),
    row("list(duration).max(): duration", Cost::Scan, max),
    row("list(timestamp).max(): timestamp", Cost::Scan, max),
    row("list(string).max(): string", Cost::Scan, max),
    row("list(bytes).max(): bytes", Cost::Scan, max),
    row("list(int).sort(): list(int)", Cost::Scan, sort),
    row("list(uint).sort(): list(uint)", Cost::Scan, sort),
    row("list(double).sort(): list(double)", Cost::Scan, sort),
    row("list(bool).sort(): list(bool)", Cost::Scan, sort),
    row("list(duration).sort(): list(duration)", Cost::Scan, sort),
    row("list(timestamp).sort(): list(timestamp)", Cost::Scan, sort),
    row("list(string).sort(): list(string)", Cost::Scan, sort),
    row("list(bytes).sort(): list(bytes)", Cost::Scan, sort),
    row("list(A).indexOf(A): int", Cost::Scan, |cx, args| position(cx, args, false)),
    row("list(A).lastIndexOf(A): int", Cost::Scan, |cx, args| position(cx, args, true)),
    row("list(T).reverse(): list(T)", Cost::Scan, |_, args| match args {
        [Value::List(list)] => Ok(Value::List(List::new(list.iter().rev().collect())?)),
        _ => unfit(),
    }),
    row("list(T).distinct(): list(T)", Cost::Scan, distinct),
    row("list(T).slice(int, int): list(T)", Cost::Scan, slice),
    row("list(list(T)).flatten(): list(T)", Cost::Scan, |cx, args| flatten(cx, args, 1)),
    row("list(dyn).flatten(int): list(dyn)", Cost::Scan, |cx, args| match args {
        [list, Value::Int(levels)] => flatten(cx, std::slice::from_ref(list), *levels),
        _ => unfit(),
    }),
    row("lists.range(int): list(int)", Cost::One, |cx, args| {
        let [Value::Int(n)] = args else { return unfit() };
        cx.charge(10 + usize::try_from(*n).unwrap_or(0))?;
        Ok(Value::List(List::new((0..*n).map(Value::Int).collect())?))
    }),
];

fn is_sorted<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    for (a, b) in list.iter().zip(list.iter().skip(1)) {
        match compare(&a, &b) {
            Some(Ordering::Greater) => return Ok(Value::Bool(false)),
            Some(_) => {}
            None if matches!((&a, &b), (Value::Double(_), Value::Double(_))) => {}
            None => return unfit(),
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::List(list)] => numbers::sum(cx, list),
        _ => unfit(),
    }
}

fn extreme<'a>(args: &[Value<'a>], name: &str, wanted: Ordering) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    let mut items = list.iter();
    let Some(mut best) = items.next() else {
        return Err(EvalError::Failed(format!("{name} called on empty list")));
    };
    for item in items {
        match compare(&item, &best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return unfit(),
        }
    }
    Ok(best)
}

fn min<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    extreme(args, "min", Ordering::Less)
}

fn max<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    extreme(args, "max", Ordering::Greater)
}

fn sort<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    cx.charge(list.len().saturating_mul(3) + 10)?;
    Ok(Value::List(List::new(sort_by(list.iter().map(|item| (item.clone(), item)).collect())?)?))
}

fn position<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], last: bool) -> Result<Value<'a>, EvalError> {
    let [Value::List(list), wanted] = args else { return unfit() };
    let mut found = None;
    for (place, item) in list.iter().enumerate() {
        if cx.equal(&item, wanted)? {
            found = Some(place);
            if !last {
                break;
            }
        }
    }
    Ok(found.map_or(Value::Int(-1), Value::count))
}

fn distinct<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    let mut kept: Vec<Value<'a>> = Vec::new();
    'items: for item in list.iter() {
        cx.charge(kept.len() + 1)?;
        for have in &kept {
            if cx.equal(have, &item)? {
                continue 'items;
            }
        }
        kept.push(item);
    }
    Ok(Value::List(List::new(kept)?))
}

fn slice<'a>(_: &mut Context<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list), Value::Int(from), Value::Int(to)] = args else { return unfit() };
    let wrong = |why: String| Err(EvalError::Failed(format!("cannot slice({from}, {to}), {why}")));
    let (Ok(start), Ok(end)) = (usize::try_from(*from), usize::try_from(*to)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if start > end {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if end > list.len() {
        return wrong(format!("list is length {}", list.len()));
    }
    Ok(Value::List(List::new(list.iter().skip(start).take(end - start).collect())?))
}

fn flatten<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], levels: i64) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    let Ok(levels) = usize::try_from(levels) else { return Err(EvalError::failed("level must be non-negative")) };
    let mut flat = Vec::new();
    flatten_into(cx, list, levels.min(limits::VALUE_DEPTH), &mut flat)?;
    Ok(Value::List(List::new(flat)?))
}

fn flatten_into<'a>(
    cx: &mut Context<'_, 'a>,
    list: &List<'a>,
    levels: usize,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    for item in list.iter() {
        cx.charge(1)?;
        match item {
            Value::List(inner) if levels > 0 => flatten_into(cx, &inner, levels - 1, flat)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

//! Functions of texts. Positions are in characters.

use super::{Cost, Row, row, unfit};
use crate::context::Context;
use crate::error::EvalError;
use crate::value::{List, Value};

pub(super) const ROWS: &[Row] = &[
    row("string.contains(string): bool", Cost::Product, |_, args| test(args, |text, part| text.contains(part))),
    row("string.startsWith(string): bool", Cost::Scan, |_, args| test(args, |text, part| text.starts_with(part))),
    row("string.endsWith(string): bool", Cost::Scan, |_, args| test(args, |text, part| text.ends_with(part))),
    row("string.charAt(int): string", Cost::Scan, |_, args| {
        let [Value::String(text), Value::Int(place)] = args else { return unfit() };
        let at = offset(text, *place)?;
        let rest = text.get(at..).unwrap_or_default();
        Ok(rest.chars().next().map(String::from).unwrap_or_default().into())
    }),
    row("string.indexOf(string): int", Cost::Product, |_, args| index_of(args, 0)),
    row("string.indexOf(string, int): int", Cost::Product, |_, args| match args {
        [text, part, Value::Int(from)] => index_of(&[text.clone(), part.clone()], *from),
        _ => unfit(),
    }),
    row("string.lastIndexOf(string): int", Cost::Product, |_, args| last_index_of(args, None)),
    row("string.lastIndexOf(string, int): int", Cost::Product, |_, args| match args {
        [text, part, Value::Int(from)] => last_index_of(&[text.clone(), part.clone()], Some(*from)),
        _ => unfit(),
    }),
    row("list(string).join(): string", Cost::Scan, |cx, args| join(cx, args, "")),
    row("list(string).join(string): string", Cost::Scan, |cx, args| match args {
        [list, Value::String(between)] => join(cx, std::slice::from_ref(list), between),
        _ => unfit(),
    }),
    row("string.lowerAscii(): string", Cost::Scan, |_, args| map(args, str::to_ascii_lowercase)),
    row("string.upperAscii(): string", Cost::Scan, |_, args| map(args, str::to_ascii_uppercase)),
    row("string.trim(): string", Cost::Scan, |_, args| map(args, |text| text.trim().to_owned())),
    row("string.replace(string, string): string", Cost::Product, |cx, args| replace(cx, args, -1)),
    row("string.replace(string, string, int): string", Cost::Product, |cx, args| match args {
        [rest @ .., Value::Int(most)] => replace(cx, rest, *most),
        _ => unfit(),
    }),
    row("string.split(string): list(string)", Cost::Scan, |cx, args| split(cx, args, -1)),
    row("string.split(string, int): list(string)", Cost::Scan, |cx, args| match args {
        [rest @ .., Value::Int(most)] => split(cx, rest, *most),
        _ => unfit(),
    }),
    row("string.substring(int): string", Cost::Scan, |_, args| match args {
        [Value::String(text), Value::Int(from)] => {
            let at = offset(text, *from)?;
            Ok(text.get(at..).unwrap_or_default().to_owned().into())
        }
        _ => unfit(),
    }),
    row("string.substring(int, int): string", Cost::Scan, |_, args| {
        let [Value::String(text), Value::Int(from), Value::Int(to)] = args else { return unfit() };
        if from > to {
            return Err(EvalError::Failed(format!("invalid substring range. start: {from}, end: {to}")));
        }
        let (start, end) = (offset(text, *from)?, offset(text, *to)?);
        Ok(text.get(start..end).unwrap_or_default().to_owned().into())
    }),
    row("strings.quote(string): string", Cost::Scan, |_, args| map(args, oarlock_meta::quote::quote)),
];

fn test<'a>(args: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(part)] = args else { return unfit() };
    Ok(Value::Bool(holds(text, part)))
}

fn map<'a>(args: &[Value<'a>], change: impl Fn(&str) -> String) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return unfit() };
    Ok(change(text).into())
}

fn out_of_range(place: i64) -> EvalError {
    EvalError::Failed(format!("index out of range: {place}"))
}

/// Returns the byte offset of a character; the position after the last character is valid too.
fn offset(text: &str, place: i64) -> Result<usize, EvalError> {
    let index = usize::try_from(place).map_err(|_| out_of_range(place))?;
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.into_iter().nth(index).ok_or_else(|| out_of_range(place))
}

/// Returns the number of characters before a byte offset.
fn place(text: &str, at: usize) -> usize {
    text.get(..at).map_or(0, |before| before.chars().count())
}

fn index_of<'a>(args: &[Value<'a>], from: i64) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(part)] = args else { return unfit() };
    if from < 0 {
        return Err(out_of_range(from));
    }
    // A start after the end is no error: no match exists.
    let Ok(start) = offset(text, from) else { return Ok(Value::Int(-1)) };
    let found = text.get(start..).and_then(|rest| rest.find(&**part));
    Ok(found.map_or(Value::Int(-1), |at| Value::count(place(text, start + at))))
}

fn last_index_of<'a>(args: &[Value<'a>], from: Option<i64>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(part)] = args else { return unfit() };
    let until = match from {
        None => text.len(),
        Some(from) if from < 0 => return Err(out_of_range(from)),
        Some(from) => match offset(text, from) {
            // A match may begin at `from` and end later.
            Ok(start) => text.floor_char_boundary((start + part.len()).min(text.len())),
            Err(_) => return Ok(Value::Int(-1)),
        },
    };
    let found = text.get(..until).and_then(|head| head.rfind(&**part));
    Ok(found.map_or(Value::Int(-1), |at| Value::count(place(text, at))))
}

fn join<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], between: &str) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else { return unfit() };
    let mut joined = String::new();
    for (i, item) in list.iter().enumerate() {
        let Value::String(item) = item else { return unfit() };
        let between = if i > 0 { between } else { "" };
        cx.charge_text(item.len() + between.len())?;
        joined.push_str(between);
        joined.push_str(&item);
    }
    Ok(joined.into())
}

fn replace<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], most: i64) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(from), Value::String(to)] = args else { return unfit() };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let times = text.matches(&**from).take(most).count();
    cx.charge_text(times.saturating_mul(to.len()))?;
    Ok(text.replacen(&**from, to, most).into())
}

fn split<'a>(cx: &mut Context<'_, 'a>, args: &[Value<'a>], most: i64) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(between)] = args else { return unfit() };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut parts: Vec<Value<'a>> = Vec::new();
    let mut keep = |part: &str| {
        cx.charge(1)?;
        parts.push(part.to_owned().into());
        Ok::<(), EvalError>(())
    };
    if between.is_empty() {
        // An empty separator splits between all characters.
        let mut rest: &str = text;
        let mut left = most;
        while let Some(first) = rest.chars().next().filter(|_| left > 0) {
            let len = if left == 1 { rest.len() } else { first.len_utf8() };
            keep(rest.get(..len).unwrap_or_default())?;
            rest = rest.get(len..).unwrap_or_default();
            left -= 1;
        }
    } else {
        text.splitn(most, &**between).try_for_each(keep)?;
    }
    Ok(Value::List(List::new(parts)?))
}

//! Merges lists in strategic merge patches: by key or by value, with deletions, and in the order of the result.

use oarlock_schema::{Map, Value};

use super::positions::Positions;
use super::{DIRECTIVE, Error, Rule, SET_ORDER, Scope, merge_map, suffix, unknown_directive, without_directives};
use crate::errors::json_kind;
use crate::go_fmt;

/// Handles every `$setElementOrder/x` of the patch: merges the list `x` now and puts the result into the stated order.
pub(super) fn set_order(original: &mut Map, patch: &mut Map, scope: Scope) -> Result<(), Error> {
    let mut directives = Vec::new();
    patch.retain(|name, value| {
        let directive = name.starts_with(SET_ORDER);
        if directive {
            directives.push((name.to_owned(), std::mem::take(value)));
        }
        !directive
    });
    for (directive, order) in directives {
        const WRONG: &str = "invalid patch format of setElementOrder list";
        let Value::List(order) = order else {
            return Err(Error::Plain(expected_list(&order)));
        };
        let name = suffix(&directive, SET_ORDER, WRONG)?;
        let list = |map: &Map| match map.get(name) {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(items.to_vec())),
            Some(other) => Err(Error::Plain(expected_list(other))),
        };
        let (old, new) = (list(original)?, list(patch)?);
        let rule = scope.rule(name)?;
        check_order(new.as_deref().unwrap_or_default(), &order, rule.key)?;
        let server = server_order(old.as_deref(), new.as_deref(), &rule);
        let patched: Vec<Value> = new.iter().flatten().take(1).cloned().collect();
        let merged = match (&old, new) {
            (None, None) => continue,
            (Some(old), None) => old.clone(),
            (None, Some(mut new)) => {
                new.retain_mut(without_directives);
                new
            }
            (Some(old), Some(new)) if rule.merge => merge(old.clone(), new, &rule, false)?,
            (Some(_), Some(new)) => new,
        };
        let (order_at, server_at) = (Positions::of(&order, rule.key), Positions::of(&server, rule.key));
        let (listed, other) = partition(merged, &order_at, rule.key)?;
        let first = old.iter().flatten().chain(patched.iter()).next();
        let first = first.ok_or_else(|| Error::Plain("no elements in any of the given slices".to_owned()))?;
        if let Some(key) = rule.key.filter(|_| json_kind(first) == "object") {
            listed.iter().chain(&order).try_for_each(|item| has_key(item, key))?;
        }
        let ordered = arrange(listed, other, &order_at, &server_at);
        original.insert(name, Value::List(ordered.into_iter().collect()));
        patch.remove(name);
    }
    Ok(())
}

/// Returns the order of the server's own items, as upstream computes the order. Where the patch deletes items of a keyed list, upstream
/// shifts the list in place and appends the patch's new items into the free slots, so that as many of the new items count as existing
/// items at the end.
fn server_order(old: Option<&[Value]>, new: Option<&[Value]>, rule: &Rule) -> Vec<Value> {
    let old = old.unwrap_or_default();
    let (Some(new), Some(key), true) = (new, rule.key, rule.merge) else { return old.to_vec() };
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    let deletes = new.iter().enumerate().filter(|(_, item)| directive(item).as_deref() == Some("delete"));
    let deletes = Positions::among(deletes, Some(key));
    let mut server: Vec<Value> = old.iter().filter(|item| deletes.find(item).is_none()).cloned().collect();
    let free = old.len() - server.len();
    if new.iter().all(|item| directive(item).as_deref() != Some("replace")) {
        let known = Positions::of(&server, Some(key));
        let fresh = new.iter().filter(|item| directive(item).is_none() && known.find(item).is_none());
        let fresh: Vec<Value> = fresh.take(free).cloned().collect();
        server.extend(fresh);
    }
    server
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Map(_) => "map[string]interface {}",
        Value::List(_) => "[]interface {}",
        Value::Int(_) => "int64",
        Value::Number(_) => "float64",
        Value::Null => "%!s(<nil>)",
        other => json_kind(other),
    }
}

fn expected_list(got: &Value) -> String {
    format!("expected a []interface {{}}, but received a {}", go_type(got))
}

/// Checks that an item of a list with a merge key is an object with the key, also in a `$setElementOrder` list (upstream `validateMergeKeyInLists`).
fn has_key(item: &Value, key: &str) -> Result<(), Error> {
    match item {
        Value::Map(_) => key_of(item, key).map(drop),
        other => Err(Error::Plain(format!("expected a map[string]interface {{}}, but received a {}", go_type(other)))),
    }
}

/// Checks that the items of a patch come in the order of its `$setElementOrder`.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deletes = |item: &&Value| key.is_some() && item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    let mut items = patch.iter().filter(|item| !deletes(item)).peekable();
    let mut wanted = order.iter().peekable();
    while let (Some(item), Some(next)) = (items.peek(), wanted.peek()) {
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        if same_item(item, next, key)? {
            items.next();
        }
        wanted.next();
    }
    // An item out of order, or a directive after the last item.
    if items.peek().is_some() {
        let (patch, order) = (list_text(patch), list_text(order));
        return Err(Error::Plain(format!(
            "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
        )));
    }
    Ok(())
}

fn list_text(items: &[Value]) -> String {
    go_fmt::plain(&Value::List(items.iter().cloned().collect()))
}

fn same_item(a: &Value, b: &Value, key: Option<&str>) -> Result<bool, Error> {
    match key {
        None => Ok(a == b),
        Some(key) => Ok(key_of(a, key)? == key_of(b, key)?),
    }
}

fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    item.get(key).ok_or_else(|| no_key(item, key))
}

fn no_key(item: &Value, key: &str) -> Error {
    Error::Plain(format!("map: {} does not contain declared merge key: {key}", go_fmt::plain(item)))
}

/// Merges two lists; with `deletion` the values of `patch` are removed from a list of scalars instead.
pub(super) fn merge(original: Vec<Value>, patch: Vec<Value>, rule: &Rule, deletion: bool) -> Result<Vec<Value>, Error> {
    let Some(first) = original.first().or(patch.first()) else { return Ok(original) };
    let kind = json_kind(first);
    if kind == "array" {
        return Err(Error::ListOfLists);
    }
    if original.iter().chain(&patch).any(|item| json_kind(item) != kind) {
        let shown = format!("[{} {}]", list_text(&original), list_text(&patch));
        return Err(Error::Plain(format!("list element types are not identical: {shown}")));
    }
    if kind != "object" {
        let in_patch = Positions::of(&patch, None);
        if deletion {
            return Ok(original.into_iter().filter(|item| in_patch.find(item).is_none()).collect());
        }
        let mut seen = Positions::of(&[], None);
        let merged = original.iter().chain(&patch).filter(|item| seen.add(0, item)).cloned().collect();
        let (in_patch, in_original) = (Positions::of(&patch, rule.key), Positions::of(&original, rule.key));
        let (listed, other) = partition(merged, &in_patch, rule.key)?;
        return Ok(arrange(listed, other, &in_patch, &in_original));
    }
    let Some(key) = rule.key else {
        let name = match rule.scope {
            Scope::Struct(ty) => ty.short_name(),
            _ => "",
        };
        return Err(Error::Plain(format!("cannot merge lists without merge key for {name}")));
    };
    let (original, patch) = obey_directives(original, patch, key)?;
    let mut merged = original.clone();
    let mut known = Positions::of(&original, Some(key));
    for item in &patch {
        key_of(item, key)?;
        match known.find(item).and_then(|at| merged.get_mut(at)) {
            Some(Value::Map(old)) => {
                let Value::Map(item) = item else { continue };
                *old = merge_map(std::mem::take(old), item.clone(), rule.scope)?;
            }
            _ => {
                known.add(merged.len(), item);
                merged.push(item.clone());
            }
        }
    }
    let (in_patch, in_original) = (Positions::of(&patch, Some(key)), Positions::of(&original, Some(key)));
    let (listed, other) = partition(merged, &in_patch, Some(key))?;
    Ok(arrange(listed, other, &in_patch, &in_original))
}

/// Takes items with `$patch` out of the patch and applies the directives to the original list.
fn obey_directives(original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut replace = false;
    let mut deletes = Vec::new();
    let mut rest = Vec::with_capacity(patch.len());
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                key_of(&item, key)?;
                deletes.push(item);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Error::Plain("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let shown = go_fmt::plain(directive);
                let Value::Map(map) = item else { continue };
                return Err(unknown_directive(&shown, map));
            }
        }
    }
    if replace {
        return Ok((rest, Vec::new()));
    }
    let deletes = Positions::of(&deletes, Some(key));
    Ok((original.into_iter().filter(|old| deletes.find(old).is_none()).collect(), rest))
}

/// Splits items into those that `order` contains and the others.
fn partition(items: Vec<Value>, order: &Positions<'_>, key: Option<&str>) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut listed = Vec::with_capacity(items.len());
    let mut other = Vec::new();
    for item in items {
        if let Some(key) = key
            && item.get(key).is_none()
        {
            return Err(no_key(&item, key));
        }
        if order.find(&item).is_some() { listed.push(item) } else { other.push(item) }
    }
    Ok((listed, other))
}

/// Puts the patched items into the patch's order. The server's own items keep their position before a patched item that followed them; items without a known
/// position come last.
fn arrange(mut listed: Vec<Value>, mut other: Vec<Value>, order: &Positions<'_>, server: &Positions<'_>) -> Vec<Value> {
    listed.sort_by_cached_key(|item| order.find(item));
    other.sort_by_cached_key(|item| server.find(item));
    let mut out = Vec::with_capacity(listed.len() + other.len());
    let mut other = other.into_iter().peekable();
    for item in listed {
        let at = server.find(&item);
        while let Some(waiting) = other.peek() {
            match (server.find(waiting), at) {
                (Some(waiting), Some(at)) if waiting < at => out.extend(other.next()),
                _ => break,
            }
        }
        out.push(item);
    }
    out.extend(other);
    out
}

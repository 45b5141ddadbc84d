//! Removes a field set from an object (upstream `typed.RemoveItems`).

use oarlock_schema::{Map, Value};

use super::atom::{Atom, item_element, members, settle};
use super::set::FieldSet;

/// Returns `value` without the paths of `set`. A struct, map or list that loses all its members becomes null.
pub(super) fn remove(value: &Value, set: &FieldSet, atom: Atom) -> Value {
    if set.is_empty() {
        return value.clone();
    }
    match settle(atom, None, Some(value)) {
        Atom::Leaf if matches!(value, Value::List(_) | Value::Map(_) | Value::Struct(_)) => Value::Null,
        Atom::Leaf => value.clone(),
        atom @ (Atom::Keyed(..) | Atom::Set) => {
            let mut kept = Vec::new();
            for item in value.items() {
                let node = item_element(item, atom).ok().and_then(|element| set.get(&element));
                match node {
                    Some(node) if node.member => {}
                    Some(node) => kept.push(remove(item, &node.children, atom.item())),
                    None => kept.push(item.clone()),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::List(kept.into_iter().collect()) }
        }
        atom => {
            let mut kept = Map::default();
            for (name, value) in members(Some(value)) {
                match set.field(name) {
                    Some(node) if node.member => {}
                    Some(node) => {
                        kept.insert(name, remove(value, &node.children, atom.member(name)));
                    }
                    None => {
                        kept.insert(name, value.clone());
                    }
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Map(kept) }
        }
    }
}

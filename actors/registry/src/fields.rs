//! Rules about whole fields that all kinds share: which ones an endpoint resets or restores (upstream: the strategies' reset fields), and whether the desired
//! state differs.

use oarlock_schema::{Obj, Resource, Struct, Value, canonical};

/// Resets the paths that the main endpoint does not accept.
pub fn reset_for_create(resource: &Resource, obj: &mut Obj) {
    for path in reset_paths(resource, "") {
        reset(obj, path, None);
    }
}

/// Restores the paths that this endpoint may not change.
pub fn reset_for_update(resource: &Resource, endpoint: &str, new: &mut Obj, old: &Obj) {
    for path in reset_paths(resource, endpoint) {
        match *path {
            "metadata" => restore_metadata(new, old),
            path => reset(new, path, Some(old)),
        }
    }
}

/// Restores the metadata that a `status` update may not change; managedFields are kept (upstream `ResetObjectMetaForStatus`).
pub fn restore_metadata(new: &mut Obj, old: &Obj) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        restore_at(new, old, &["metadata", field]);
    }
}

/// Restores whole fields from the stored object.
pub fn restore(new: &mut Obj, old: &Obj, fields: &[&str]) {
    for field in fields {
        reset(new, field, Some(old));
    }
}

/// Returns the paths that an endpoint resets (schema data `reset`).
#[must_use]
pub fn reset_paths(resource: &Resource, endpoint: &str) -> &'static [&'static str] {
    resource.reset.iter().find(|(name, _)| *name == endpoint).map_or(&[], |(_, paths)| paths)
}

fn reset(obj: &mut Obj, path: &str, old: Option<&Obj>) {
    let names: smallvec::SmallVec<[&str; 4]> = path.split('.').collect();
    match old {
        Some(old) => restore_at(obj, old, &names),
        None => remove_at(obj, &names),
    }
}

/// Restores the value at a path from the stored object.
pub fn restore_at(new: &mut Obj, old: &Obj, path: &[&str]) {
    match old.at(path) {
        Some(value) => {
            new.set_at(path, value.clone());
        }
        None => remove_at(new, path),
    }
}

/// Removes the node at a path of struct fields; a struct field that is no pointer becomes its zero value.
pub fn remove_at(node: &mut Struct, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some((id, def)) = node.ty().field(first) else { return };
    if rest.is_empty() {
        node.remove(id);
        if node.ty().always.contains(&id.0) {
            node.set(id, if def.pointer { Value::Null } else { Value::zero(&def.shape) });
        }
        return;
    }
    match node.field_mut(id) {
        Some(Value::Struct(inner)) => remove_at(inner, rest),
        Some(Value::Map(map)) => {
            if let [key] = rest {
                map.remove(key);
            }
        }
        _ => {}
    }
}

/// Whether any field other than type, metadata and status differs.
#[must_use]
pub fn desired_state_differs(new: &Obj, old: &Obj) -> bool {
    new.ty()
        .iter()
        .filter(|(_, def)| !matches!(def.name, "kind" | "apiVersion" | "metadata" | "status"))
        .any(|(id, _)| !canonical::same(new.field(id), old.field(id)))
}

//! Metadata and reset rules that all kinds share: which fields the server fills in, keeps and restores on writes (upstream: `rest.BeforeCreate`,
//! `rest.BeforeUpdate` and the strategies' reset fields).

use oarlock_schema::{Obj, Resource, Struct, Value, canonical};

use crate::kind::{KindDef, Request};

/// Fills in the system metadata of a new object and drops the fields that clients may not set.
pub fn before_create(kind: KindDef, request: &Request<'_>, uid: &str, obj: &mut Obj) {
    let resource = kind.resource;
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_uid(uid).set_creation_timestamp(request.now);
        meta.clear_deletion_timestamp()
            .clear_deletion_grace_period_seconds()
            .clear_self_link()
            .clear_resource_version();
        if resource.generation {
            meta.set_generation(1i64);
        } else {
            meta.clear_generation();
        }
    }
    kind.strategy.prepare_create(request, obj);
}

/// Restores the fields that the endpoint may not change, and increments the generation.
pub fn before_update(kind: KindDef, request: &Request<'_>, new: &mut Obj, old: &Obj) {
    keep_metadata(new, old);
    kind.strategy.prepare_update(request, new, old);
    if kind.resource.generation && request.endpoint != "status" && kind.strategy.bumps_generation(new, old) {
        let next = old.meta().generation() + 1;
        if let Some(mut meta) = new.meta_mut() {
            meta.set_generation(next);
        }
    }
}

/// Restores system metadata from the stored object.
pub fn keep_metadata(new: &mut Obj, old: &Obj) {
    let stored = old.meta();
    if let Some(mut meta) = new.meta_mut() {
        if meta.read().uid().is_empty() {
            meta.set_uid(stored.uid());
        }
        for field in ["creationTimestamp", "generation"] {
            copy_field(old, field, &mut meta);
        }
        // An update can neither undo nor change a deletion. Validation refuses an update that would begin one.
        if stored.deletion_timestamp().is_some() {
            copy_field(old, "deletionTimestamp", &mut meta);
        }
        if meta.read().deletion_grace_period_seconds().is_none() {
            copy_field(old, "deletionGracePeriodSeconds", &mut meta);
        }
        meta.clear_self_link().clear_resource_version();
    }
}

fn copy_field(old: &Obj, field: &str, meta: &mut oarlock_schema::views::meta_v1::ObjectMetaMut<'_>) {
    let node = meta.raw_mut();
    let Some((id, _)) = node.ty().field(field) else { return };
    let value = old.at(&["metadata", field]).cloned();
    match value {
        Some(value) => {
            node.set(id, value);
        }
        None => {
            node.remove(id);
        }
    }
}

/// Resets the paths that the main endpoint does not accept.
pub fn reset_for_create(resource: &Resource, obj: &mut Obj) {
    for path in reset_paths(resource, "") {
        reset(obj, path, None);
    }
}

/// Restores the paths that this endpoint may not change.
pub fn reset_for_update(request: &Request<'_>, new: &mut Obj, old: &Obj) {
    for path in reset_paths(request.resource, request.endpoint) {
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

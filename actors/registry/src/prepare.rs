//! Metadata rules that all kinds share: which metadata the server fills in, keeps and restores on writes (upstream: `rest.BeforeCreate`,
//! `rest.BeforeUpdate`).

use oarlock_schema::Obj;

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

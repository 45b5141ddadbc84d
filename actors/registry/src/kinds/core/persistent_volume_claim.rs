//! PersistentVolumeClaims: start Pending; `dataSource` and `dataSourceRef` are kept in step (KEP-1495).

use oarlock_schema::{Obj, Struct, Value};

use crate::fields;
use crate::kind::{Request, Strategy};

const SOURCE: &str = "dataSource";
const REF: &str = "dataSourceRef";

/// Strategy of claims.
#[derive(Debug)]
pub struct PersistentVolumeClaimStrategy;

impl Strategy for PersistentVolumeClaimStrategy {
    fn prepare_create(&self, request: &Request<'_>, obj: &mut Obj) {
        fields::reset_for_create(request.resource, obj);
        obj.set_at(&["status", "phase"], "Pending");
        sources(obj, None);
    }

    fn prepare_update(&self, request: &Request<'_>, new: &mut Obj, old: &Obj) {
        fields::reset_for_update(request.resource, request.endpoint, new, old);
        if request.endpoint.is_empty() {
            sources(new, Some(old));
        }
    }
}

fn is_set(spec: &Struct, field: &str) -> bool {
    spec.get(field).is_some_and(|v| !v.is_null())
}

/// Drops a `dataSource` of a kind that old provisioners did not know, as before KEP-1495; then copies either field to the other.
fn sources(obj: &mut Obj, old: Option<&Obj>) {
    let used = |obj: &Obj| {
        obj.get("spec").and_then(Value::as_struct).is_some_and(|spec| is_set(spec, SOURCE) || is_set(spec, REF))
    };
    let in_use = old.is_some_and(used);
    let Some(spec) = obj.get_mut("spec").and_then(Value::as_struct_mut) else { return };
    if !in_use && !is_set(spec, REF) && !spec.get(SOURCE).is_some_and(is_known) {
        spec.remove_name(SOURCE);
    }
    let elsewhere = spec.at(&[REF, "namespace"]).and_then(Value::as_str).is_some_and(|n| !n.is_empty());
    match (is_set(spec, SOURCE), is_set(spec, REF)) {
        (true, false) => copy(spec, SOURCE, REF),
        (false, true) if !elsewhere => copy(spec, REF, SOURCE),
        _ => {}
    }
}

/// Whether a source is a PersistentVolumeClaim or a VolumeSnapshot.
fn is_known(source: &Value) -> bool {
    let text = |field: &str| source.get(field).and_then(Value::as_str).unwrap_or("");
    matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

fn copy(spec: &mut Struct, from: &str, to: &str) {
    for field in ["apiGroup", "kind", "name"] {
        if let Some(value) = spec.at(&[from, field]).filter(|v| !v.is_null()).cloned() {
            spec.set_at(&[to, field], value);
        }
    }
}

//! The admission stages, one file each.

pub mod certificates;
pub mod default_storage_class;
pub mod default_toleration_seconds;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod node_restriction;
pub mod priority;
mod references;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
mod signing_request;
pub mod storage_object_in_use_protection;
pub mod taint_nodes_by_condition;
pub mod validating_admission_policy;

use oarlock_schema::{Resource, Struct, Value, type_named};

/// Returns a built-in resource of the schema.
fn row(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    oarlock_schema::resource(group, version, plural)
}

/// Returns an empty struct of a schema type.
fn node(ty: &str) -> Option<Struct> {
    type_named(ty).map(Struct::zero)
}

/// Returns the list in a field of a struct, created if missing.
fn list_in<'a>(parent: &'a mut Struct, field: &str) -> Option<&'a mut thin_vec::ThinVec<Value>> {
    let (id, _) = parent.ty().field(field)?;
    let slot = parent.entry(id, || Value::List(thin_vec::ThinVec::new()));
    if !matches!(slot, Value::List(_)) {
        *slot = Value::List(thin_vec::ThinVec::new());
    }
    match slot {
        Value::List(items) => Some(items),
        _ => None,
    }
}

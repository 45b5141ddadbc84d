//! An object that must exist, and what is done to one that exists already.

use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource, resource};

/// API group of roles and bindings.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// How an existing object is treated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repair {
    /// The object is left as it is.
    CreateOnly,
    /// Missing items of a list are added, unless `rbac.authorization.kubernetes.io/autoupdate` is `false`.
    AddItems(&'static str),
    /// The named fields are reset.
    Replace(&'static [&'static str]),
}

/// An object that must exist.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    /// Resource of the object.
    pub resource: &'static Resource,
    /// The object.
    pub obj: Obj,
    /// Treatment of the object if it exists already.
    pub repair: Repair,
}

/// Makes an object with its name and nothing else.
///
/// # Errors
/// 500 when the schema lacks the resource.
pub(super) fn made(
    group: &str,
    version: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<(&'static Resource, Obj), Status> {
    let row =
        resource(group, version, plural).ok_or_else(|| Status::internal_error(format!("no resource {plural}")))?;
    let mut obj = Obj::new(row.ty);
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_name(name);
        if !namespace.is_empty() {
            meta.set_namespace(namespace);
        }
    }
    Ok((row, obj))
}

/// Decodes an object that must exist.
///
/// # Errors
/// 500 when the JSON does not fit the resource's type.
pub(super) fn from_json(row: &'static Resource, json: serde_json::Value, repair: Repair) -> Result<Desired, Status> {
    let mut obj = oarlock_registry::index::decode(json.to_string().as_bytes(), row.ty)
        .map_err(|e| Status::internal_error(e.to_string()))?;
    obj.set_gvk(row.gvk());
    Ok(Desired { resource: row, obj, repair })
}

/// Builds a role or binding.
///
/// # Errors
/// 500 when the schema lacks RBAC, or the JSON does not fit the type.
pub(super) fn rbac(plural: &str, json: serde_json::Value, repair: Repair) -> Result<Desired, Status> {
    let row = resource(GROUP, "v1", plural);
    from_json(row.ok_or_else(|| Status::internal_error(format!("no resource {plural}")))?, json, repair)
}

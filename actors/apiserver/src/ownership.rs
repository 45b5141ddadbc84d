//! Field ownership (`managedFields`): its update at every write, and server-side apply.

use bytes::Bytes;
use oarlock_client::{FieldValidation, WriteOptions};
use oarlock_meta::{Status, Time};
use oarlock_patch::Validation;
use oarlock_patch::apply::{self, Versions, Writer, manager_name};
use oarlock_registry::fields;
use oarlock_runtime::clock;
use oarlock_schema::{Obj, Resource, Str, Struct, Value};

use crate::caller::Caller;
use crate::target::Target;

/// Owned values that a [`Writer`] borrows.
struct Owned {
    manager: Str,
    api_version: String,
}

/// The version of Scale, the only subresource with its own type whose fields have managers.
pub(crate) const SCALE: &str = "autoscaling/v1";

impl Owned {
    fn new(caller: &Caller, target: &Target<'_>, options: &WriteOptions) -> Self {
        let scale = target.subresource == "scale";
        Self {
            manager: manager_name(&options.field_manager, &caller.agent),
            api_version: if scale { SCALE.to_owned() } else { target.resource().group_version() },
        }
    }

    fn writer<'a>(&'a self, target: &'a Target<'_>) -> Writer<'a> {
        Writer {
            manager: &self.manager,
            api_version: &self.api_version,
            subresource: target.subresource,
            reset: fields::reset_paths(target.resource(), target.subresource),
            now: Time::from_unix(clock::wall().as_second()),
            versions: Versions::ONE,
        }
    }
}

/// Records the manager of a new object's fields, in the version in which the client wrote them.
///
/// # Errors
/// When the kind has no such version.
pub(crate) fn on_create(
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    obj: &mut Obj,
) -> Result<(), Status> {
    let owned = Owned::new(caller, target, options);
    if target.serves_stored() {
        apply::track_create(obj, &owned.writer(target));
        return Ok(());
    }
    let mut served = target.to_served(obj.clone())?;
    apply::track_create(&mut served, &owned.writer(target));
    take_managers(obj, &served);
    Ok(())
}

/// Records the manager of the fields of a body that is posted to a subresource, in the version of the body's own kind.
pub(crate) fn on_post(caller: &Caller, target: &Target<'_>, options: &WriteOptions, body: &mut Obj) {
    let mut owned = Owned::new(caller, target, options);
    if let Some(subresource) = target.resource().subresource(target.subresource) {
        let (group, version) = (subresource.gvk.group, subresource.gvk.version);
        owned.api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    }
    apply::track_create(body, &owned.writer(target));
}

/// Records the server itself as the manager of an object that it creates.
pub(crate) fn of_server(resource: &Resource, obj: &mut Obj) {
    let now = Time::from_unix(clock::wall().as_second());
    let api_version = &resource.group_version();
    let writer =
        Writer { manager: "kube-apiserver", api_version, subresource: "", reset: &[], now, versions: Versions::ONE };
    apply::track_create(obj, &writer);
}

/// Updates the managers of an object's fields after a change, in the version in which each manager wrote them.
///
/// # Errors
/// When the kind has no such version.
pub(crate) fn on_update(
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    obj: &mut Obj,
    old: &Obj,
) -> Result<(), Status> {
    let owned = Owned::new(caller, target, options);
    if !target.has_versions() || target.subresource == "scale" {
        apply::track_update(old, obj, &owned.writer(target));
        return Ok(());
    }
    let convert = |obj: &Obj, version: &str| target.to_version(obj, version);
    let writer = Writer { versions: Versions::of(&convert), ..owned.writer(target) };
    let mut served = target.to_served(obj.clone())?;
    apply::track_update(&target.to_served(old.clone())?, &mut served, &writer);
    take_managers(obj, &served);
    Ok(())
}

fn take_managers(obj: &mut Obj, from: &Obj) {
    let path = ["metadata", "managedFields"];
    match from.at(&path) {
        Some(managers) => drop(obj.set_at(&path, managers.clone())),
        None => fields::remove_at(obj, &path),
    }
}

/// Applies a configuration to the current object, or creates an object from it. The result has `managedFields` but no defaults.
///
/// # Errors
/// 400 for an invalid configuration, 409 when another manager owns a field with another value.
pub(crate) fn apply(
    caller: &Caller,
    target: &Target<'_>,
    body: &Bytes,
    options: &WriteOptions,
    current: Option<&Obj>,
) -> Result<Obj, Status> {
    let owned = Owned::new(caller, target, options);
    let validation = validation(options.field_validation);
    let ty = current.map_or(target.resource().ty, |obj| obj.ty());
    let applied = apply::apply(current, ty, body, &owned.writer(target), options.force, validation)?;
    applied.warnings.into_iter().for_each(|text| caller.warn(text));
    Ok(applied.obj)
}

/// Returns how strictly a patch or a configuration is decoded.
#[must_use]
pub(crate) fn validation(asked: FieldValidation) -> Validation {
    match asked {
        FieldValidation::Ignore => Validation::Ignore,
        FieldValidation::Strict => Validation::Strict,
        FieldValidation::Warn | FieldValidation::Unset => Validation::Warn,
    }
}

/// Whether two canonical objects differ in nothing but resourceVersion and the times in `managedFields`. Such a change is not written.
pub(crate) fn is_same(new: &Obj, old: &Obj) -> bool {
    let others = |(id, def): (oarlock_schema::FieldId, &oarlock_schema::FieldDef)| {
        def.name == "metadata" || new.field(id) == old.field(id)
    };
    if !new.ty().iter().all(others) {
        return false;
    }
    match (new.get("metadata").and_then(Value::as_struct), old.get("metadata").and_then(Value::as_struct)) {
        (Some(new), Some(old)) => same_metadata(new, old),
        (None, None) => true,
        _ => false,
    }
}

fn same_metadata(new: &Struct, old: &Struct) -> bool {
    new.ty().iter().all(|(id, def)| match def.name {
        "resourceVersion" => true,
        "managedFields" => same_managers(new.field(id), old.field(id)),
        _ => new.field(id) == old.field(id),
    })
}

fn same_managers(new: Option<&Value>, old: Option<&Value>) -> bool {
    let (new, old) = (new.map_or(&[][..], Value::items), old.map_or(&[][..], Value::items));
    let same = |(a, b): (&Value, &Value)| match (a.as_struct(), b.as_struct()) {
        (Some(a), Some(b)) => a.ty().iter().all(|(id, def)| def.name == "time" || a.field(id) == b.field(id)),
        _ => a == b,
    };
    new.len() == old.len() && new.iter().zip(old).all(same)
}

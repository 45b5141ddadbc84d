//! `scale`: the replica count of a workload as autoscaling/v1.Scale.
//!
//! A write builds the workload's Scale with its managers, changes the Scale as any object is changed, and copies replicas and managers back into the
//! workload.

pub(crate) mod conversion;
mod owners;

use oarlock_apis::{kind, rules};
use oarlock_client::{Call, GetOptions, PatchType, Reply, WriteOptions};
use oarlock_meta::{ErrorList, GroupKind, GroupResource, Path, Revision, Status};
use oarlock_schema::Obj;

use self::conversion::{replicas, scale_of, set_replicas};
use crate::caller::Caller;
use crate::change::{self, Change};
use crate::server::Server;
use crate::target::Target;
use crate::verbs::get;
use crate::verbs::update::modify;
use crate::{identity, ownership, patching};

/// Executes a call on `scale`.
///
/// # Errors
/// The Status with which the call is answered.
pub(crate) async fn call(server: &Server, caller: &Caller, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
    match call {
        Call::Get(GetOptions { resource_version }) => {
            let object = get::get(server, caller, target, &GetOptions { resource_version }).await?;
            Ok(crate::answers::answer(&scale_of(&object.obj()?)?, false))
        }
        Call::Update(mut body, options) => {
            identity::fit_namespace(target, &mut body)?;
            identity::check_name(target, &body)?;
            let key = target.key(target.name)?;
            let mut replaced = |current: &Obj| {
                identity::check_uid(target, &key, body.meta().uid(), current.meta().uid())?;
                let mut scale = body.clone();
                ownership::on_update(caller, target, &options, &mut scale, current)?;
                Ok(scale)
            };
            write(server, caller, target, &options, &mut replaced).await
        }
        Call::Patch(patch_type, bytes, options) => {
            let mut patched = |current: &Obj| {
                let mut scale = patching::apply_to(caller, target, patch_type, &bytes, &options, current)?;
                identity::fit_namespace(target, &mut scale)?;
                identity::check_name(target, &scale)?;
                if patch_type != PatchType::Apply {
                    ownership::on_update(caller, target, &options, &mut scale, current)?;
                }
                Ok(scale)
            };
            write(server, caller, target, &options, &mut patched).await
        }
        other => Err(Status::method_not_supported(&target.resource().group_resource(), other.verb())),
    }
}

/// A function that makes the requested Scale, with its managed fields, from the current one.
type MakeScale<'a> = &'a mut (dyn FnMut(&Obj) -> Result<Obj, Status> + Send);

async fn write(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    make_scale: MakeScale<'_>,
) -> Result<Reply, Status> {
    let mut change = |old: &Obj, revision: Revision| -> Result<Change, Status> {
        let mut current = scale_of(old)?;
        owners::to_scale(target, old, &mut current);
        let scale = make_scale(&current)?;
        validate(target, &scale)?;
        check_uid(target, scale.meta().uid(), old.meta().uid())?;
        let expect = change::expected(target, &scale)?.filter(|asked| *asked != revision);
        let mut obj = old.clone();
        set_replicas(&scale, &mut obj);
        owners::to_parent(target, &scale, &mut obj);
        Ok(Change { obj, expect, managed: true, trusted: false })
    };
    let entry = modify(server, caller, target, options, &mut change).await?.entry();
    Ok(crate::answers::answer(&scale_of(&target.decode(&entry)?)?, false))
}

/// Validates a Scale (upstream `ValidateScale`).
fn validate(target: &Target<'_>, scale: &Obj) -> Result<(), Status> {
    let mut errors = ErrorList::default();
    rules::object_meta::validate(target.resource(), &kind::DEFAULT, scale, &mut errors);
    let spec = Path::new("spec");
    rules::non_negative(replicas(scale), &spec.child("replicas"), &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), target.name, errors.as_slice()))
}

/// Checks the uid that a patch states; the uid in a replaced Scale has been compared before.
fn check_uid(target: &Target<'_>, asked: &str, have: &str) -> Result<(), Status> {
    if asked.is_empty() || asked == have {
        return Ok(());
    }
    let row = target.resource();
    let resource = GroupResource::new(row.group, format!("{}/scale", row.plural));
    let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {have}");
    Err(Status::conflict(&resource, target.name, why))
}

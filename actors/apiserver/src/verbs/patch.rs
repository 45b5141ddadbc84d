//! PATCH: JSON patch, merge patch, strategic merge patch and server-side apply over the stored object.

use std::sync::Arc;

use bytes::Bytes;
use oarlock_client::{PatchType, WriteOptions};
use oarlock_meta::{Revision, Status};
use oarlock_schema::Obj;
use oarlock_seeded_bug::seeded_bug;
use oarlock_store::Entry;

use super::create;
use super::update::{self, Change};
use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Patches an object; apply creates what is not there. The flag says that it was created.
///
/// # Errors
/// 400, 404, 409, 415, 422, whatever admission says.
pub async fn patch(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    patch_type: PatchType,
    body: &Bytes,
    options: &WriteOptions,
) -> Result<(Arc<Entry>, bool), Status> {
    if patch_type == PatchType::Apply && server.view().get(&target.key(target.name)?).is_none() {
        if !target.subresource.is_empty() {
            return Err(target.not_found());
        }
        let mut obj = crate::ownership::apply(caller, target, body, options, None)?;
        check_new(target, &mut obj)?;
        server.authorize_resource(caller, "create", target)?;
        match create::create_applied(server, caller, target, obj, options).await {
            // Somebody else created it meanwhile: apply to that.
            Err(status) if status.is_already_exists() => {}
            other => return other.map(|entry| (entry, true)),
        }
    }
    let mut change = |old: &Obj, revision: Revision| -> Result<Change, Status> {
        crate::patching::patched(caller, target, patch_type, body, options, old, revision)
    };
    Ok((update::modify(server, caller, target, options, &mut change).await?.entry(), false))
}

/// An applied object that is not there yet is the one that the URL names, and no earlier one of the name.
fn check_new(target: &Target<'_>, obj: &mut Obj) -> Result<(), Status> {
    let uid = obj.meta().uid();
    if !uid.is_empty() {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(Status::conflict(&target.resource().group_resource(), target.name, why));
    }
    create::fit_namespace(target, obj)?;
    if seeded_bug!("apply_makes_another_object") {
        return Ok(());
    }
    update::check_name(target, obj)
}

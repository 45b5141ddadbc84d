//! Patches an object: JSON patch, merge patch, strategic merge patch and server-side apply.

use std::sync::Arc;

use bytes::Bytes;
use oarlock_client::{PatchType, WriteOptions};
use oarlock_meta::{Revision, Status};
use oarlock_schema::Obj;
use oarlock_seeded_bug::seeded_bug;
use oarlock_store::Entry;

use super::create;
use super::update;
use crate::caller::Caller;
use crate::change::Change;
use crate::identity;
use crate::server::Server;
use crate::target::Target;

/// Patches an object; an apply creates a missing one. The flag says whether the object was created.
///
/// # Errors
/// 400, 404, 409, 415, 422, and the error of an admission stage.
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
            // Another client created the object meanwhile: apply to that object.
            Err(status) if status.is_already_exists() => {}
            other => return other.map(|entry| (entry, true)),
        }
    }
    let mut change = |old: &Obj, revision: Revision| -> Result<Change, Status> {
        crate::patching::patched(caller, target, patch_type, body, options, old, revision)
    };
    Ok((update::modify(server, caller, target, options, &mut change).await?.entry(), false))
}

/// Checks an apply that creates an object: the body must be the object that the URL names, and must not state the uid of an earlier object of that
/// name.
fn check_new(target: &Target<'_>, obj: &mut Obj) -> Result<(), Status> {
    let uid = obj.meta().uid();
    if !uid.is_empty() {
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(Status::conflict(&target.resource().group_resource(), target.name, why));
    }
    identity::fit_namespace(target, obj)?;
    if seeded_bug!("apply_makes_another_object") {
        return Ok(());
    }
    identity::check_name(target, obj)
}

#[cfg(test)]
mod tests {
    use oarlock_schema::resource;

    use super::*;

    /// Each expected answer was recorded from upstream.
    #[test]
    fn an_applied_object_is_the_one_that_the_url_names() {
        let maps = resource("", "v1", "configmaps").unwrap();
        let target = Target::new(maps, "", "n", "a");
        let check = |name: &str, namespace: &str, uid: &str| {
            let mut obj = Obj::new(maps.ty);
            obj.meta_mut().unwrap().set_name(name).set_namespace(namespace).set_uid(uid);
            check_new(&target, &mut obj).map_err(|status| (status.code, status.message))
        };
        let bad = |text: &str| Err((400, text.to_owned()));
        assert_eq!(check("a", "", ""), Ok(()));
        assert_eq!(check("b", "", ""), bad("the name of the object (b) does not match the name on the URL (a)"));
        let unnamed = "the name of the object (a based on URL) was undeterminable: name must be provided";
        assert_eq!(check("", "n", ""), bad(unnamed));
        let elsewhere = "the namespace of the provided object does not match the namespace sent on the request";
        assert_eq!(check("b", "other", ""), bad(elsewhere));
        let uid = "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid u, and no existing object was found";
        assert_eq!(check("b", "other", "u"), Err((409, uid.to_owned())));
    }
}

//! Checks that a body is about the object that the URL names: name, namespace, uid, and system metadata.

use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_storage::Key;

use crate::target::Target;

/// Checks that the object's namespace equals the URL's, and fills in an absent one.
///
/// # Errors
/// 400 when they differ.
pub(crate) fn fit_namespace(target: &Target<'_>, obj: &mut Obj) -> Result<(), Status> {
    check_namespace(target, obj)?;
    if !target.resource().namespaced {
        if let Some(mut meta) = obj.meta_mut() {
            meta.clear_namespace();
        }
        return Ok(());
    }
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_namespace(target.namespace);
    }
    Ok(())
}

/// Checks that a body names no other namespace than the URL does.
///
/// # Errors
/// 400 when they differ.
pub(crate) fn check_namespace(target: &Target<'_>, obj: &Obj) -> Result<(), Status> {
    let namespace = obj.meta().namespace();
    if !target.resource().namespaced || namespace.is_empty() || namespace == target.namespace {
        return Ok(());
    }
    Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

/// Clears the metadata that only the server may set, before any manager can own it (upstream: `rest.WipeObjectMetaSystemFields`).
pub(crate) fn forget_system_fields(obj: &mut Obj) {
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_uid().clear_creation_timestamp().clear_deletion_timestamp().clear_deletion_grace_period_seconds();
        meta.clear_self_link();
    }
}

/// Checks that the object's name equals the URL's.
///
/// # Errors
/// 400 when the name is absent or differs.
pub(crate) fn check_name(target: &Target<'_>, obj: &Obj) -> Result<(), Status> {
    let name = obj.meta().name();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}

/// Compares the uid in a body, which is a precondition, with the stored one. The error has the text of upstream's store.
pub(crate) fn check_uid(target: &Target<'_>, key: &Key, asked: &str, have: &str) -> Result<(), Status> {
    check_precondition(target, key, "UID", asked, have)
}

/// Compares the uid and resourceVersion that a body states with those of the stored object. Values that the body omits are not compared.
///
/// # Errors
/// 409 when a stated value differs from the stored one.
pub(crate) fn check_precondition(
    target: &Target<'_>,
    key: &Key,
    what: &str,
    asked: &str,
    have: &str,
) -> Result<(), Status> {
    if asked.is_empty() || asked == have {
        return Ok(());
    }
    Err(failed_precondition(target, key, what, asked, have))
}

/// Returns a 409 for an object whose uid or revision differs from the one that the request states.
pub(crate) fn failed_precondition(target: &Target<'_>, key: &Key, what: &str, asked: &str, have: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {what} in precondition: {asked}, {what} in object meta: {have}"
    );
    Status::conflict(&target.resource().group_resource(), target.name, why)
}

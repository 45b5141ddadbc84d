//! Whether a body is of the object that the URL names: its name, namespace and uid, and its system metadata.

use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_storage::Key;

use crate::target::Target;

/// The object's namespace is the URL's, or absent and then becomes it.
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

/// Checks that a body names no other namespace than the URL.
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

/// What only the server says of an object is dropped before anybody comes to own it (upstream: `rest.WipeObjectMetaSystemFields`).
pub(crate) fn forget_system_fields(obj: &mut Obj) {
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_uid().clear_creation_timestamp().clear_deletion_timestamp().clear_deletion_grace_period_seconds();
        meta.clear_self_link();
    }
}

/// The object's name is the URL's.
///
/// # Errors
/// 400 when it is absent or another.
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

/// A uid in a body is a precondition. Upstream's store checks it, and its words come through.
pub(crate) fn check_uid(target: &Target<'_>, key: &Key, asked: &str, have: &str) -> Result<(), Status> {
    check_precondition(target, key, "UID", asked, have)
}

/// Compares the uid and resourceVersion that a body states with those of the stored object; what the body leaves out is not compared.
///
/// # Errors
/// 409 when the object has another one.
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

/// 409: the object has another uid or revision than the request states.
pub(crate) fn failed_precondition(target: &Target<'_>, key: &Key, what: &str, asked: &str, have: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {what} in precondition: {asked}, {what} in object meta: {have}"
    );
    Status::conflict(&target.resource().group_resource(), target.name, why)
}

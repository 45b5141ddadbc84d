//! Applies patches of every type to a stored object, with upstream's rules about resourceVersion and kind.

use bytes::Bytes;
use oarlock_client::{PatchType, WriteOptions};
use oarlock_meta::{Revision, Status};
use oarlock_patch::{PatchKind, apply_patch};
use oarlock_schema::Obj;

use crate::caller::Caller;
use crate::change::{Change, expected};
use crate::target::Target;
use crate::{identity, ownership};

/// Returns a stored object after a patch, in the stored type and with defaults.
///
/// # Errors
/// 400, 409, 413, 415 and 422 as upstream.
pub(crate) fn patched(
    caller: &Caller,
    target: &Target<'_>,
    patch_type: PatchType,
    body: &Bytes,
    options: &WriteOptions,
    old: &Obj,
    revision: Revision,
) -> Result<Change, Status> {
    let served = target.to_served(old.clone())?;
    let applied = patch_type == PatchType::Apply;
    let mut obj = apply_to(caller, target, patch_type, body, options, &served)?;
    let named = obj.meta().resource_version();
    // The stored object carries its own revision; only a different one in the result is a precondition of the client.
    let expect = if applied && named.is_empty() { None } else { expected(target, &obj)? };
    let expect = expect.filter(|r| *r != revision);
    identity::check_name(target, &obj)?;
    identity::fit_namespace(target, &mut obj)?;
    obj = target.to_stored(obj)?;
    oarlock_apis::default(&mut obj);
    Ok(Change { obj, expect, managed: applied, trusted: false })
}

/// Returns any object after a patch.
///
/// # Errors
/// As [`patched`].
pub(crate) fn apply_to(
    caller: &Caller,
    target: &Target<'_>,
    patch_type: PatchType,
    body: &Bytes,
    options: &WriteOptions,
    current: &Obj,
) -> Result<Obj, Status> {
    let kind = match patch_type {
        PatchType::Json => PatchKind::Json,
        PatchType::Merge => PatchKind::Merge,
        PatchType::Strategic => PatchKind::Strategic,
        PatchType::Apply => return ownership::apply(caller, target, body, options, Some(current)),
    };
    let patched = apply_patch(kind, current, body, ownership::validation(options.field_validation))?;
    patched.warnings.into_iter().for_each(|text| caller.warn(text));
    Ok(patched.obj)
}

//! `pods/ephemeralcontainers`: containers are only ever added.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Errors of an update of a pod's ephemeral containers. For a static pod the only error is that it can have none: only its manifest at the kubelet decides
/// about it.
pub(super) fn validate(new: &Obj, old: &Obj, errors: &mut ErrorList) {
    if old.meta().annotations().get(MIRROR).is_some() {
        *errors = ErrorList::default();
        // Upstream builds the error's path from an empty name.
        errors.push(FieldError::forbidden(&Path::new("[]"), "static pods do not support ephemeral containers"));
        return;
    }
    if let (Some(now), Some(before)) = (new.view::<Pod<'_>>(), old.view::<Pod<'_>>()) {
        oarlock_apis::core::ephemeral::validate_change(now.spec(), before.spec(), errors);
    }
}

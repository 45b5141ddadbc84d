//! `pods/ephemeralcontainers`: containers can be added, but neither changed nor removed.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns the errors of an update of a pod's ephemeral containers. A static pod can have none, because only its manifest at the kubelet defines it;
/// then no other error is reported.
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

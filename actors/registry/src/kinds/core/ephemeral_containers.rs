//! `pods/ephemeralcontainers`: containers are only ever added.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is wrong with a change of a pod's ephemeral containers. A static pod has none, whatever else is wrong with it: its kubelet's manifest
/// alone decides about it.
pub(super) fn validate(new: &Obj, old: &Obj, errors: &mut ErrorList) {
    if old.meta().annotations().get(MIRROR).is_some() {
        *errors = ErrorList::default();
        // Upstream makes a path of no name.
        errors.push(FieldError::forbidden(&Path::new("[]"), "static pods do not support ephemeral containers"));
        return;
    }
    if let (Some(now), Some(before)) = (new.view::<Pod<'_>>(), old.view::<Pod<'_>>()) {
        oarlock_apis::core::ephemeral::validate_change(now.spec(), before.spec(), errors);
    }
}

//! Defaults and validation of Event.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::Event;

/// Validates an Event's namespace: that of the involved object, or `default` for cluster-scoped objects (upstream
/// `legacyValidateEvent`; the stricter rules of events.k8s.io apply to requests in that group).
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let event = Event::new(node);
    let (here, about) = (event.metadata().namespace(), event.involved_object().namespace());
    let at = path.child("involvedObject");
    let at = at.child("namespace");
    if about.is_empty() {
        if !matches!(here, "" | "default" | "kube-system") {
            errors.push(FieldError::invalid(&at, about, "does not match event.namespace"));
        }
    } else if about != here {
        errors.push(FieldError::invalid(&at, about, "does not match event.namespace"));
    }
}

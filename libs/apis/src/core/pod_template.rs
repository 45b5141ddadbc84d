//! Validation of pod templates.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::PodTemplateSpec;

use crate::rules::{labels, object_meta};

/// Validates like upstream's `ValidatePodTemplateSpec`: labels and annotations are those of a pod, and their paths omit `metadata`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let template = PodTemplateSpec::new(node);
    labels(template.metadata().labels(), &path.child("labels"), errors);
    object_meta::annotations(template.metadata(), &path.child("annotations"), errors);
    if !template.spec().ephemeral_containers().is_empty() {
        let at = path.child("spec");
        errors.push(FieldError::forbidden(
            &at.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

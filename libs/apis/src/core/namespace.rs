//! Defaults and validation of Namespace.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Namespace, NamespaceMut};

use crate::rules::qualified;

/// Sets the label with the namespace's name (upstream `SetDefaults_Namespace`). A generated name gets its label after generation.
pub fn default(node: &mut Struct) {
    let mut namespace = NamespaceMut::new(node);
    let name = namespace.read().metadata().name().to_owned();
    if !name.is_empty() {
        namespace.metadata_mut().labels_mut().insert("kubernetes.io/metadata.name", name);
    }
}

/// Validates the finalizers of a namespace, whose path has no index (upstream `ValidateNamespace`).
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("spec");
    for name in Namespace::new(node).spec().finalizers().iter() {
        finalizer(name, &at.child("finalizers"), errors);
    }
}

/// Validates a finalizer, which must have a domain unless it is Kubernetes' own (upstream `validateFinalizerName`).
pub fn finalizer(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    qualified(name, path, errors);
    if !name.contains('/') && name != "kubernetes" {
        let text = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, name, text));
    }
}

/// Validates that the phase agrees with the deletion of the namespace (upstream `ValidateNamespaceStatusUpdate`, whose path has this spelling).
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let namespace = Namespace::new(new);
    let (phase, path) = (namespace.status().phase(), Path::new("status"));
    let going = namespace.metadata().deletion_timestamp().is_some_and(|time| !time.is_empty());
    let (only, text) = if going {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    if phase != only {
        errors.push(FieldError::invalid(&path.child("Phase"), phase, text));
    }
}

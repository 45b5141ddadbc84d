//! Namespace.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Namespace, NamespaceMut};

use crate::rules::qualified;

/// Every namespace bears its name as a label (upstream `SetDefaults_Namespace`); one whose name is yet to be generated gets it then.
pub fn default(node: &mut Struct) {
    let mut namespace = NamespaceMut::new(node);
    let name = namespace.read().metadata().name().to_owned();
    if !name.is_empty() {
        namespace.metadata_mut().labels_mut().insert("kubernetes.io/metadata.name", name);
    }
}

/// Finalizers have a domain, save the one of Kubernetes (upstream `validateFinalizerName`).
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("spec");
    let at = at.child("finalizers");
    for name in Namespace::new(node).spec().finalizers().iter() {
        qualified(name, &at, errors);
        if !name.contains('/') && name != "kubernetes" {
            errors.push(FieldError::invalid(
                &at,
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

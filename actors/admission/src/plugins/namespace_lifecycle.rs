//! NamespaceLifecycle: no object is created in a missing or terminating namespace; the system's namespaces cannot be deleted.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_meta::status::cause;
use oarlock_registry::Reader;

use super::row;
use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

/// Namespaces that cannot be deleted.
const UNDELETABLE: &[&str] = &["default", "kube-system", "kube-public"];

/// The NamespaceLifecycle stage.
#[derive(Debug)]
pub struct NamespaceLifecycle {
    reader: Reader,
}

/// Creates the stage NamespaceLifecycle.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(NamespaceLifecycle { reader: reader.clone() })
}

#[async_trait]
impl AdmissionStage for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Delete)
    }

    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Mutating
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.operation == Operation::Delete {
            if attributes.is("", "namespaces") && UNDELETABLE.contains(&attributes.name) {
                return Err(attributes.forbidden("this namespace may not be deleted"));
            }
            return Ok(());
        }
        // Access reviews may ask about namespaces that do not exist.
        if !attributes.resource.namespaced || attributes.resource.plural == "localsubjectaccessreviews" {
            return Ok(());
        }
        let Some(namespaces) = row("", "v1", "namespaces") else { return Ok(()) };
        let Some(entry) = self.reader.entry(namespaces, "", attributes.namespace) else {
            return Err(Status::not_found(&namespaces.group_resource(), attributes.namespace));
        };
        if entry.deletion {
            return Err(terminating(attributes));
        }
        Ok(())
    }
}

fn terminating(attributes: &Attributes<'_>) -> Status {
    let namespace = attributes.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let message = format!("namespace {namespace} is being terminated");
    attributes.forbidden(why).with_cause(cause::NAMESPACE_TERMINATING, message, "metadata.namespace")
}

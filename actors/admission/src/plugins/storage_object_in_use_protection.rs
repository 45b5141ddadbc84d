//! StorageObjectInUseProtection: volumes, claims and attributes classes get a finalizer that their controllers remove when the objects are unused.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::Reader;
use oarlock_schema::Value;

use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

/// (group, plural, finalizer)
const FINALIZERS: &[(&str, &str, &str)] = &[
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

/// The StorageObjectInUseProtection stage.
#[derive(Debug)]
pub struct StorageObjectInUseProtection;

/// Creates the stage StorageObjectInUseProtection.
#[must_use]
pub fn make(_reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(StorageObjectInUseProtection)
}

#[async_trait]
impl AdmissionStage for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn takes_part(&self, half: Half, attributes: &Attributes<'_>) -> bool {
        half == Half::Mutating && finalizer(attributes).is_some()
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(finalizer) = finalizer(attributes) else { return Ok(()) };
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        if object.meta().finalizers().iter().any(|f| f == finalizer) {
            return Ok(());
        }
        if let Some(mut meta) = object.meta_mut() {
            meta.finalizers_mut().push(Value::from(finalizer));
        }
        Ok(())
    }
}

/// Returns the finalizer of the objects of a request; `None` of a resource whose objects get none.
fn finalizer(attributes: &Attributes<'_>) -> Option<&'static str> {
    FINALIZERS.iter().find(|(group, plural, _)| attributes.is(group, plural)).map(|(.., finalizer)| *finalizer)
}

//! DefaultStorageClass: a claim without a class gets the default one.

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::Reader;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{PersistentVolumeClaim, PersistentVolumeClaimMut};

use super::row;
use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const IS_DEFAULT_BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
const CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";

/// The DefaultStorageClass stage.
#[derive(Debug)]
pub struct DefaultStorageClass {
    reader: Reader,
}

/// Creates the stage DefaultStorageClass.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(DefaultStorageClass { reader: reader.clone() })
}

#[async_trait]
impl AdmissionStage for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn takes_part(&self, half: Half, attributes: &Attributes<'_>) -> bool {
        half == Half::Mutating && attributes.is("", "persistentvolumeclaims")
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(claim) = attributes.object.as_deref_mut() else { return Ok(()) };
        let named = claim.view::<PersistentVolumeClaim<'_>>().is_some_and(|c| c.spec().storage_class_name().is_some())
            || claim.meta().annotations().get(CLASS_BETA).is_some();
        let Some(class) = self.default_class().filter(|_| !named) else { return Ok(()) };
        PersistentVolumeClaimMut::new(claim).spec_mut().set_storage_class_name(class.name());
        Ok(())
    }
}

impl DefaultStorageClass {
    /// Returns the default class: of several the newest, then the first by name.
    fn default_class(&self) -> Option<Obj> {
        let classes = row("storage.k8s.io", "v1", "storageclasses")?;
        let is_default = |obj: &Obj| {
            let annotations = obj.meta().annotations();
            [IS_DEFAULT, IS_DEFAULT_BETA].iter().any(|key| annotations.get(key) == Some("true"))
        };
        let mut defaults: Vec<Obj> = self.reader.list(classes, None).into_iter().filter(is_default).collect();
        defaults.sort_by(|a, b| {
            let age = b.meta().creation_timestamp().cmp(a.meta().creation_timestamp());
            age.then_with(|| a.name().cmp(b.name()))
        });
        defaults.into_iter().next()
    }
}

//! LimitRanger: fills in the defaults of a namespace's limit ranges, and refuses requests outside of the limits.

mod constraints;
mod defaults;

use std::sync::Arc;

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::{Reader, key};
use oarlock_schema::Resource;
use oarlock_schema::views::core_v1::{PersistentVolumeClaim, Pod};

use self::constraints::Limit;
use super::row;
use crate::attributes::{Attributes, Operation};
use crate::cache::Cache;
use crate::stage::AdmissionStage;

/// The LimitRanger stage.
#[derive(Debug)]
pub struct LimitRanger {
    reader: Reader,
    ranges: Option<&'static Resource>,
    known: Cache<Vec<Limit>>,
}

/// Creates the stage LimitRanger.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    let ranges = row("", "v1", "limitranges");
    Box::new(LimitRanger { reader: reader.clone(), ranges, known: Cache::new(constraints::read) })
}

#[async_trait]
impl AdmissionStage for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !concerns(attributes) || attributes.resource.plural != "pods" {
            return Ok(());
        }
        let ranges = self.ranges(attributes.namespace);
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        for limits in ranges {
            defaults::fill(pod, &limits);
        }
        Ok(())
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !concerns(attributes) {
            return Ok(());
        }
        for limits in self.ranges(attributes.namespace) {
            let Some(object) = attributes.object.as_deref() else { return Ok(()) };
            let mut errors = if let Some(pod) = object.view::<Pod<'_>>() {
                constraints::pod(pod, &limits)
            } else if let Some(claim) = object.view::<PersistentVolumeClaim<'_>>() {
                constraints::claim(claim, &limits)
            } else {
                Vec::new()
            };
            let mut seen = std::collections::BTreeSet::new();
            errors.retain(|error| seen.insert(error.clone()));
            match errors.as_slice() {
                [] => {}
                [one] => return Err(attributes.forbidden(one)),
                many => return Err(attributes.forbidden(format!("[{}]", many.join(", ")))),
            }
        }
        Ok(())
    }
}

impl LimitRanger {
    /// Returns the limit ranges of a namespace, by name.
    fn ranges(&self, namespace: &str) -> Vec<Arc<Vec<Limit>>> {
        let Some((ranges, prefix)) = self.ranges.and_then(|ranges| Some((ranges, key::prefix(ranges)?))) else {
            return Vec::new();
        };
        let all = self.reader.view().list(prefix);
        if all.is_empty() {
            return Vec::new();
        }
        all.range(Some(namespace), "").filter_map(|entry| self.known.get(ranges, entry)).collect()
    }
}

/// Whether limits apply to a request: new pods, their resizes, and new or changed claims; but no object that is being deleted.
fn concerns(attributes: &Attributes<'_>) -> bool {
    if !attributes.resource.group.is_empty() || attributes.old.is_some_and(|o| o.meta().deletion_timestamp().is_some())
    {
        return false;
    }
    match (attributes.resource.plural, attributes.subresource) {
        ("pods", "resize") | ("persistentvolumeclaims", "") => true,
        ("pods", "") => attributes.operation == Operation::Create,
        _ => false,
    }
}

//! ResourceQuota: charges new usage to the matching quotas of the namespace, in the same commit as the object.
//!
//! The charge is a compare-and-swap of `status.used`, passed on in [`RequestContext::together`](crate::RequestContext::together). The charge commits
//! atomically with the object, so a refused or lost write charges nothing. Writes that charge the same namespace take turns, because all but one of
//! them would lose the comparison. Only the quota controller lowers the usage, when it counts again.

mod charge;
mod claims;
mod evaluator;
mod pods;
mod scopes;
mod usage;

use std::time::Duration;

use async_trait::async_trait;
use oarlock_meta::Status;
use oarlock_registry::{Reader, key, reader, stored};
use oarlock_schema::views::core_v1::{ResourceQuota as Quota, ResourceQuotaMut};
use oarlock_schema::{Obj, Resource, Value};
use oarlock_storage::Append;

use self::evaluator::Evaluator;
use super::row;
use crate::attributes::{Attributes, Operation};
use crate::stage::{AdmissionStage, Half};
use crate::turns::KeyedQueues;
use oarlock_pods::Amounts;

/// How long a request waits for its turn before it continues without one.
const LONGEST_WAIT_FOR_TURN: Duration = Duration::from_secs(5);

/// The ResourceQuota stage.
#[derive(Debug)]
pub struct ResourceQuota {
    reader: Reader,
    quotas: Option<&'static Resource>,
    turns: KeyedQueues,
}

/// Creates the stage ResourceQuota.
#[must_use]
pub fn make(reader: &Reader) -> Box<dyn AdmissionStage> {
    Box::new(ResourceQuota {
        reader: reader.clone(),
        quotas: row("", "v1", "resourcequotas"),
        turns: KeyedQueues::new(),
    })
}

#[async_trait]
impl AdmissionStage for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn takes_part(&self, half: Half, _attributes: &Attributes<'_>) -> bool {
        half == Half::Validating
    }

    async fn validate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(evaluator) = Evaluator::of(attributes).filter(|_| !attributes.namespace.is_empty()) else {
            return Ok(());
        };
        if self.charges(evaluator, attributes)?.is_empty() {
            return Ok(());
        }
        if !attributes.context.dry_run {
            let patience = attributes.context.until(LONGEST_WAIT_FOR_TURN).remaining();
            attributes.context.held.extend(self.turns.take(attributes.namespace, patience).await);
        }
        // The previous holder of the turn may have changed the usage.
        let charges = self.charges(evaluator, attributes)?;
        attributes.context.together.extend(charges);
        Ok(())
    }
}

impl ResourceQuota {
    /// Returns the charges to the quotas that match the object.
    fn charges(&self, evaluator: Evaluator, attributes: &Attributes<'_>) -> Result<Vec<Append>, Status> {
        let Some((quotas, prefix)) = self.quotas.and_then(|quotas| Some((quotas, key::prefix(quotas)?))) else {
            return Ok(Vec::new());
        };
        let all = self.reader.view().list(prefix);
        let Some(object) = attributes.object.as_deref().filter(|_| !all.is_empty()) else { return Ok(Vec::new()) };
        let mut concerned = Vec::new();
        for entry in all.range(Some(attributes.namespace), "") {
            let Some(quota) = reader::decode(quotas, entry) else { continue };
            if charge::concerns(evaluator, &quota, object).map_err(|why| attributes.forbidden(why))? {
                concerned.push((entry, quota));
            }
        }
        if concerned.is_empty() {
            return Ok(Vec::new());
        }
        let added = charge::added(evaluator, object, attributes.old).map_err(|why| attributes.forbidden(why))?;
        let mut charges = Vec::new();
        for (entry, mut quota) in concerned {
            let used = charge::charge(&quota, &added).map_err(|why| attributes.forbidden(why))?;
            let Some(used) = used else { continue };
            write_used(&mut quota, &used);
            charges.push(Append::update(
                entry.key.clone(),
                entry.revision,
                stored::encode(&entry.key, &mut quota).value,
            ));
        }
        Ok(charges)
    }
}

fn write_used(quota: &mut Obj, used: &Amounts) {
    let mut view = ResourceQuotaMut::new(quota);
    let mut status = view.status_mut();
    let map = status.used_mut();
    for (name, amount) in used.iter() {
        map.insert(name, Value::from(amount.canonical()));
    }
}

/// Returns the limits in force: those that the quota controller has copied to the status.
fn hard(quota: &Obj) -> Amounts {
    quota.view::<Quota<'_>>().map_or_else(Amounts::default, |q| Amounts::of(q.status().hard()))
}

fn used(quota: &Obj) -> Amounts {
    quota.view::<Quota<'_>>().map_or_else(Amounts::default, |q| Amounts::of(q.status().used()))
}

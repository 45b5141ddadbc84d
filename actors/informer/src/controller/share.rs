//! The share of a controller's keys that this process reconciles, and the claim for each key.
//!
//! The keys of a newly held unit are not reconciled before every cache of the controller has reached the unit's epoch. From then on the caches show
//! every write that the unit's former holder has committed, and the apiserver refuses the former holder's later writes. Then all keys of the unit
//! are added to the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use oarlock_mesh::{Claim, Placement, Scope, Unit};
use oarlock_meta::Revision;
use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::RwLock;

use super::source::Source;
use crate::key::Key;
use crate::work_queue::WorkQueue;

/// The time between two warnings of a controller that waits for its caches to reach an epoch.
const CATCH_UP_WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The keys that a controller reconciles in this process: those of the units that the placement has given to the process.
#[derive(Default)]
pub(super) struct Share {
    /// The placement and its scope; `None` when every key is reconciled here, without a claim.
    of: Option<(Placement, Scope)>,
    /// The units whose keys are reconciled now, with the epoch of each claim.
    active: RwLock<BTreeMap<Unit, Revision>>,
}

impl Share {
    /// The keys of `scope` that `placement` gives to this process.
    pub(super) fn of(placement: &Placement, scope: Scope) -> Self {
        let of = (!placement.is_everything()).then(|| (placement.clone(), scope));
        Self { of, active: RwLock::default() }
    }

    /// Returns the claim under which a key is reconciled; `None` when another process reconciles the key, or the caches have not caught up yet.
    pub(super) fn claim(&self, key: &Key) -> Option<Claim> {
        let Some((placement, scope)) = &self.of else { return Some(Claim { fence: None }) };
        let unit = scope.unit(&key.namespace, &key.name)?;
        let claim = placement.claim(unit)?;
        (self.active.read().get(unit) == Some(&claim.epoch())).then_some(claim)
    }

    /// Adds a key to the queue if this process reconciles it.
    pub(super) fn enqueue(&self, queue: &WorkQueue<Key>, key: Key) {
        if self.claim(&key).is_some() {
            queue.add(key);
        }
    }

    /// Reports to the placement that a write under this claim was refused.
    pub(super) fn lost(&self, claim: &Claim) {
        if let (Some((placement, _)), Some(fence)) = (&self.of, &claim.fence) {
            placement.lost(fence);
        }
    }

    /// Starts on newly held units and stops on units that are not held any more, for as long as the future is polled.
    pub(super) async fn keep(&self, name: &str, sources: &[Arc<dyn Source>], queue: &WorkQueue<Key>) {
        let Some((placement, scope)) = &self.of else { return std::future::pending().await };
        let mut changes = placement.follow();
        loop {
            let epoch = |unit: &Unit| Some((unit.clone(), placement.claim(unit)?.epoch()));
            let held: BTreeMap<Unit, Revision> = scope.units().iter().filter_map(epoch).collect();
            let taken: BTreeMap<Unit, Revision> = {
                let mut active = self.active.write();
                active.retain(|unit, epoch| held.get(unit) == Some(epoch));
                held.into_iter().filter(|(unit, _)| !active.contains_key(unit)).collect()
            };
            let Some(newest) = taken.values().max().copied() else {
                changes.next().await;
                continue;
            };
            tokio::select! {
                biased;
                () = changes.next() => {}
                () = caught_up(name, sources, newest) => {
                    tracing::debug!(controller = name, units = taken.len(), epoch = newest.get(), "takes up units");
                    let units: Vec<Unit> = taken.keys().cloned().collect();
                    self.active.write().extend(taken);
                    let mut enqueue = |key: Key| {
                        if scope.unit(&key.namespace, &key.name).is_some_and(|unit| units.contains(unit)) {
                            self.enqueue(queue, key);
                        }
                    };
                    sources.iter().for_each(|source| source.all(&mut enqueue));
                }
            }
        }
    }
}

/// Waits until every cache has applied every change up to `epoch`.
async fn caught_up(name: &str, sources: &[Arc<dyn Source>], epoch: Revision) {
    let epoch = if seeded_bug!("owner_without_catch_up") { Revision::ZERO } else { epoch };
    loop {
        let all =
            join_all(sources.iter().map(|source| source.at_least(epoch, clock::after(CATCH_UP_WARN_INTERVAL)))).await;
        match all.into_iter().find_map(Result::err) {
            Some(lagging) => tracing::warn!(controller = name, %lagging, "waiting for caches"),
            None => return,
        }
    }
}

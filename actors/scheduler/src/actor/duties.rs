//! Tracks which units this process may act for: shards, for whose pods it finds nodes, and the arbiter's unit, whose holder decides.
//!
//! A newly claimed unit becomes active only after all caches have passed the claim's epoch: then they show everything that the former holder has written,
//! and its later writes are refused. No other state is handed over.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures::future::join_all;
use oarlock_client::Fence;
use oarlock_informer::CacheRevision;
use oarlock_mesh::{Changes, Claim, Placement, Scope, Unit};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use crate::model::PodInfo;

use super::names::namespace;

/// A set of shards, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(pub(super) u32);

impl Parts {
    /// Whether the set contains a shard.
    pub(super) fn has(self, part: usize) -> bool {
        self.0 & bit(part) != 0
    }

    /// Adds a shard.
    pub(super) fn insert(&mut self, part: usize) {
        self.0 |= bit(part);
    }

    /// Returns the union of two sets.
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the numbers of the shards in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |part| self.has(*part))
    }
}

fn bit(part: usize) -> u32 {
    u32::try_from(part).ok().and_then(|part| 1_u32.checked_shl(part)).unwrap_or(0)
}

/// The units that this process holds, and which of them are active.
pub(super) struct Duties {
    placement: Placement,
    shards: Scope,
    arbiter: Unit,
    changes: Changes,
    caches: Vec<Arc<dyn CacheRevision>>,
    active: BTreeMap<Unit, Claim>,
}

impl Duties {
    /// Tracks the units that `placement` assigns to this process; a unit is active once all `caches` have passed its epoch.
    pub(super) fn new(placement: &Placement, caches: Vec<Arc<dyn CacheRevision>>) -> Self {
        let (changes, placement) = (placement.follow(), placement.clone());
        let (shards, arbiter) = (crate::shards(), crate::arbiter_unit());
        Self { placement, shards, arbiter, changes, caches, active: BTreeMap::new() }
    }

    fn claim(&self, unit: &Unit) -> Option<Claim> {
        self.placement.claim(unit).filter(|claim| self.active.get(unit) == Some(claim))
    }

    /// Returns the claim under which this process writes bindings; `None` unless this process is the active arbiter.
    pub(super) fn arbiter(&self) -> Option<Claim> {
        self.claim(&self.arbiter)
    }

    /// Returns the arbiter's epoch if another process is the arbiter, as far as this process knows.
    pub(super) fn elsewhere(&self) -> Option<Revision> {
        self.placement.epoch(&self.arbiter).filter(|_| self.placement.claim(&self.arbiter).is_none())
    }

    /// Waits until the arbiter's epoch is known to differ from `epoch`: from then on no binding is written under `epoch`.
    pub(super) fn moved_from(&self, epoch: Revision) -> impl Future<Output = ()> + Send + use<> {
        let (placement, arbiter, mut changes) = (self.placement.clone(), self.arbiter.clone(), self.placement.follow());
        async move {
            while placement.epoch(&arbiter) == Some(epoch) {
                changes.next().await;
            }
        }
    }

    /// Returns the active claim to one shard.
    pub(super) fn shard(&self, part: usize) -> Option<Claim> {
        self.claim(self.shards.units().get(part)?)
    }

    /// Returns the shards that are active in this process.
    pub(super) fn shards(&self) -> Parts {
        let mut parts = Parts::default();
        (0..self.shards.units().len()).filter(|part| self.shard(*part).is_some()).for_each(|part| parts.insert(part));
        parts
    }

    /// Returns the set of all shards.
    pub(super) fn every_shard(&self) -> Parts {
        let mut parts = Parts::default();
        (0..self.shards.units().len()).for_each(|part| parts.insert(part));
        parts
    }

    /// Returns the number of a pod's shard.
    pub(super) fn part(&self, pod: &PodInfo) -> usize {
        self.shards.part(&namespace(pod), &pod.name)
    }

    /// Whether this process still holds an active claim.
    pub(super) fn holds(&self, claim: &Claim) -> bool {
        self.active.iter().any(|(unit, active)| active == claim && self.claim(unit).is_some())
    }

    /// Records that the API refused a write because its claim is stale.
    pub(super) fn lost(&self, fence: &Fence) {
        self.placement.lost(fence);
    }

    /// Waits until the set of active units changes. Cancel safe.
    pub(super) async fn next(&mut self) {
        loop {
            let units = self.shards.units().iter().chain([&self.arbiter]);
            let held: BTreeMap<Unit, Claim> =
                units.filter_map(|unit| Some((unit.clone(), self.placement.claim(unit)?))).collect();
            let before = self.active.len();
            self.active.retain(|unit, claim| held.get(unit) == Some(claim));
            if self.active.len() != before {
                return;
            }
            let taken = held.into_iter().filter(|(unit, _)| !self.active.contains_key(unit)).collect::<Vec<_>>();
            // The oldest claim is waited for first, so that no unit waits for one that was claimed later.
            let Some(oldest) = taken.iter().map(|(_, claim)| claim.epoch()).min() else {
                self.changes.next().await;
                continue;
            };
            tokio::select! {
                biased;
                () = self.changes.next() => {}
                seen = caught_up(&self.caches, oldest) => {
                    let shown = taken.into_iter().filter(|(_, claim)| claim.epoch() <= seen).collect::<Vec<_>>();
                    let units: Vec<&str> = shown.iter().map(|(unit, _)| unit.as_str()).collect();
                    tracing::info!(?units, seen = seen.get(), "takes up units");
                    self.active.extend(shown);
                    return;
                }
            }
        }
    }
}

/// Waits until all caches have passed `epoch`; returns the lowest revision among them.
async fn caught_up(caches: &[Arc<dyn CacheRevision>], epoch: Revision) -> Revision {
    if seeded_bug!("arbiter_without_catch_up") {
        return Revision(u64::MAX);
    }
    let each = caches.iter().map(|cache| async move {
        cache.follow().wait_for(|progress| progress.synced && progress.revision >= epoch).await.revision
    });
    join_all(each).await.into_iter().min().unwrap_or(epoch)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use oarlock_informer::{Key, Progress};
    use oarlock_meta::Uid;
    use oarlock_runtime::{Follower, Watched};

    use super::*;

    struct Caches(Arc<Watched<Progress>>);

    impl CacheRevision for Caches {
        fn applied(&self) -> Revision {
            self.0.get().revision
        }

        fn holds(&self, _: &Key, _: &Uid) -> bool {
            false
        }

        fn follow(&self) -> Follower<Progress> {
            Watched::follow(&self.0)
        }
    }

    #[tokio::test]
    async fn a_unit_is_acted_for_when_the_caches_have_come_past_its_epoch() {
        let (holder, placement) = Placement::shared();
        let progress = Arc::new(Watched::new(Progress { revision: Revision(6), synced: true }));
        let mut duties = Duties::new(&placement, vec![Arc::new(Caches(progress.clone()))]);
        let (shard, arbiter) = (Unit::part("shards", 3), crate::arbiter_unit());
        let all = |epoch| BTreeMap::from([(shard.clone(), Revision(5)), (arbiter.clone(), Revision(epoch))]);
        holder.set(all(7));
        duties.next().await;
        assert_eq!((duties.arbiter(), duties.shards(), duties.elsewhere()), (None, Parts(1 << 3), None));
        assert_eq!(duties.next().now_or_never(), None);
        progress.set(Progress { revision: Revision(7), synced: true });
        duties.next().await;
        let claim = duties.arbiter().unwrap();
        assert_eq!((claim.epoch(), duties.shards()), (Revision(7), Parts(1 << 3)));
        assert!(duties.holds(&claim));
        // The arbiter's unit was lost and claimed again.
        holder.set(all(9));
        assert_eq!((duties.arbiter(), duties.holds(&claim)), (None, false));
        duties.next().await;
        assert_eq!(duties.next().now_or_never(), None);
        assert_eq!((duties.arbiter(), duties.shards()), (None, Parts(1 << 3)));
        // Another process holds the arbiter's unit.
        let mut moved = Box::pin(duties.moved_from(Revision(9)));
        assert_eq!(moved.as_mut().now_or_never(), None);
        holder.set_among(BTreeMap::new(), all(11));
        moved.await;
        assert_eq!(duties.moved_from(Revision(11)).now_or_never(), None);
        duties.next().await;
        assert_eq!((duties.elsewhere(), duties.shards()), (Some(Revision(11)), Parts(0)));
    }
}

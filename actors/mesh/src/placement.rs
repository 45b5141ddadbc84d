//! The placement of a process: the units that the process holds, with their epochs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Fence, fence};
use oarlock_meta::Revision;
use oarlock_runtime::{Follower, Instant, Watched, clock};

use crate::external_calls::{CallWindow, ExternalCalls, NoPermit, Permit};
use crate::unit::Unit;

/// The right of this process to act for a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The fence under which writes for the unit are made; `None` if no other process could hold the unit.
    pub fence: Option<Fence>,
}

impl Claim {
    /// Returns the revision at which the unit was assigned. A holder must have seen every change up to the epoch before it acts.
    #[must_use]
    pub fn epoch(&self) -> Revision {
        self.fence.as_ref().map_or(Revision::ZERO, |fence| fence.epoch)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// Every unit, because no other process could hold one.
    Everything,
    /// These units, each with its epoch.
    Units(Units),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Units {
    mine: Arc<BTreeMap<Unit, Revision>>,
    /// The units that any process holds, as far as this process knows.
    held_by_any: Arc<BTreeMap<Unit, Revision>>,
}

impl Default for Held {
    fn default() -> Self {
        Self::Units(Units::default())
    }
}

/// The units for which this process may act, as read by its actors. Clones share the state.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The shared state; `None` if the process holds every unit for good.
    shared: Option<Holder>,
}

impl Default for Placement {
    fn default() -> Self {
        Self::everything()
    }
}

/// Sets the units that this process holds. The writing side of a [`Placement`].
#[derive(Clone, Debug)]
pub struct Holder {
    held: Arc<Watched<Held>>,
    external: Arc<Watched<ExternalCalls>>,
}

impl Placement {
    /// The placement of a process that runs alone: holds every unit, without fences.
    #[must_use]
    pub const fn everything() -> Self {
        Self { shared: None }
    }

    /// Whether this process holds every unit for good.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.shared.is_none()
    }

    /// The placement of one process among several, which holds no unit yet, with the [`Holder`] to set it.
    #[must_use]
    pub fn shared() -> (Holder, Self) {
        let holder = Holder { held: Arc::new(Watched::new(Held::default())), external: Arc::default() };
        (holder.clone(), Self { shared: Some(holder) })
    }

    /// Returns the claim to a unit, if this process holds the unit.
    #[must_use]
    pub fn claim(&self, unit: &Unit) -> Option<Claim> {
        let Some(shared) = &self.shared else { return Some(Claim { fence: None }) };
        shared.held.with(|held| match held {
            Held::Everything => Some(Claim { fence: None }),
            Held::Units(units) => {
                let epoch = *units.mine.get(unit)?;
                Some(Claim { fence: Some(Fence { unit: unit.as_str().into(), epoch }) })
            }
        })
    }

    /// Returns the epoch under which any process holds a unit, as far as this process knows; `None` if the process holds every unit.
    #[must_use]
    pub fn epoch(&self, unit: &Unit) -> Option<Revision> {
        self.shared.as_ref()?.held.with(|held| match held {
            Held::Everything => None,
            Held::Units(units) => units.held_by_any.get(unit).copied(),
        })
    }

    /// Whether this process is a valid member: its Lease was renewed in time and it is not shutting down, or no other process could hold a unit.
    #[must_use]
    pub fn has_valid_lease(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.external.with(|external| external.is_open(clock::now())))
    }

    /// Follows changes of the held units from now on.
    #[must_use]
    pub fn follow(&self) -> Changes {
        Changes(self.shared.as_ref().map(|shared| shared.held.follow()))
    }

    /// Returns the right to one call outside of the API for `unit`, under whose claim the current [scope](fence::scope) must run. Must be called right before
    /// each external call: an earlier permit or check proves nothing.
    ///
    /// # Errors
    /// [`NoPermit`]: the caller must decide anew later.
    pub fn permit(&self, unit: &Unit) -> Result<Permit, NoPermit> {
        let claim = self.claim(unit).ok_or(NoPermit::NotHeld)?;
        // A decision under an earlier claim was made on older caches.
        if claim.fence != fence::current() {
            return Err(NoPermit::NotHeld);
        }
        match &self.shared {
            None => Ok(Permit::alone(clock::now())),
            Some(shared) => Permit::of(&shared.external, claim.fence, clock::now()),
        }
    }

    /// Drops the claim of `fence`, because a write under it was refused: another process holds the unit now.
    pub fn lost(&self, fence: &Fence) {
        let Some(shared) = &self.shared else { return };
        shared.held.modify(|held| {
            let Held::Units(units) = held else { return false };
            let stale =
                |(unit, epoch): (&Unit, &Revision)| unit.as_str() == fence.unit.as_str() && *epoch == fence.epoch;
            let was_held = units.mine.iter().any(stale);
            if was_held {
                Arc::make_mut(&mut units.mine).retain(|unit, epoch| !stale((unit, epoch)));
            }
            was_held
        });
    }
}

/// Notifies of changes of the units that this process holds.
#[derive(Debug)]
pub struct Changes(Option<Follower<Held>>);

impl Changes {
    /// Waits for the next change; for ever if the process holds every unit.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(held) => held.changed().await,
            None => std::future::pending().await,
        }
    }
}

impl Holder {
    /// Sets the held units, each with its epoch.
    pub fn set(&self, units: BTreeMap<Unit, Revision>) {
        self.set_among(units.clone(), units);
    }

    /// As [`Holder::set`]; `held_by_any` are the units that any process holds, each with its epoch.
    pub fn set_among(&self, mine: BTreeMap<Unit, Revision>, held_by_any: BTreeMap<Unit, Revision>) {
        self.replace(Held::Units(Units { mine: Arc::new(mine), held_by_any: Arc::new(held_by_any) }));
    }

    /// Sets every unit as held, because the server has no Assignments and so cannot assign units.
    pub fn set_everything(&self) {
        self.external.modify(|external| external.set_window(CallWindow::Unlimited));
        self.replace(Held::Everything);
    }

    /// Records that this process's Lease was renewed at `revision` for the duration `lasts`, by a request that began at `asked`.
    pub fn renewed(&self, asked: Instant, lasts: Duration, revision: Revision) {
        self.external.modify(|external| {
            external.renewed((asked, clock::now()), lasts, revision);
            false
        });
    }

    /// Whether a claim of this epoch allows no external calls any more, because the Lease has expired since. The holder must then rewrite the Assignment.
    #[must_use]
    pub fn is_void(&self, epoch: Revision) -> bool {
        self.external.with(|external| epoch <= external.since())
    }

    /// Refuses further external calls; returns when all open calls have ended, at their deadlines at the latest.
    pub async fn close_external_calls(&self) {
        self.external.modify(|external| external.set_window(CallWindow::Closed));
        let Some(last) = self.external.with(ExternalCalls::last) else { return };
        // A timeout is no error: a call has no effects after its deadline.
        let _late = clock::timeout_at(last, self.external.wait_for(|external| external.last().is_none())).await;
    }

    fn replace(&self, next: Held) {
        self.held.modify(|held| {
            let changed = *held != next;
            *held = next;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_holds_everything_without_a_claim() {
        let claim = Placement::everything().claim(&Unit::singleton("x")).unwrap();
        assert_eq!((claim.fence.clone(), claim.epoch()), (None, Revision::ZERO));
    }

    #[tokio::test]
    async fn what_is_held_is_held_under_its_epoch_until_it_is_lost() {
        let (holder, placement) = Placement::shared();
        let (one, two) = (Unit::part("controllers", 1), Unit::part("controllers", 2));
        let mut changes = placement.follow();
        assert_eq!(placement.claim(&one), None);
        holder.set(BTreeMap::from([(one.clone(), Revision(7)), (two.clone(), Revision(8))]));
        changes.next().await;
        let fence = placement.claim(&one).unwrap().fence.unwrap();
        assert_eq!(fence.to_string(), "controllers-1@7");
        // The refused write was under an older claim; the current claim remains.
        placement.lost(&Fence { epoch: Revision(6), ..fence.clone() });
        assert!(placement.claim(&one).is_some());
        placement.lost(&fence);
        changes.next().await;
        assert_eq!((placement.claim(&one), placement.claim(&two).is_some()), (None, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_stands_as_long_as_its_lease_and_not_when_it_leaves() {
        let (holder, placement) = Placement::shared();
        assert!(!placement.has_valid_lease(), "not renewed yet");
        holder.renewed(clock::now(), Duration::from_secs(15), Revision(7));
        assert!(placement.has_valid_lease());
        clock::sleep(Duration::from_secs(13)).await;
        assert!(!placement.has_valid_lease(), "others may judge soon");
        holder.renewed(clock::now(), Duration::from_secs(15), Revision(8));
        assert!(placement.has_valid_lease());
        holder.close_external_calls().await;
        assert!(!placement.has_valid_lease(), "it leaves");
        holder.set_everything();
        assert!(placement.has_valid_lease() && Placement::everything().has_valid_lease());
    }

    #[tokio::test]
    async fn what_others_hold_is_known_and_not_claimed() {
        let (holder, placement) = Placement::shared();
        let (mine, other) = (Unit::named("a"), Unit::named("b"));
        let all = BTreeMap::from([(mine.clone(), Revision(3)), (other.clone(), Revision(5))]);
        holder.set_among(BTreeMap::from([(mine.clone(), Revision(3))]), all);
        assert_eq!((placement.claim(&other), placement.epoch(&other)), (None, Some(Revision(5))));
        assert_eq!((placement.claim(&mine).is_some(), placement.epoch(&mine)), (true, Some(Revision(3))));
        assert_eq!(Placement::everything().epoch(&mine), None);
    }
}

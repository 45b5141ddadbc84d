//! The units that this process holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::{Fence, fence};
use oarlock_meta::Revision;
use oarlock_runtime::{Follower, Instant, Watched, clock};

use crate::outside::{NoPermit, Outside, Permit, Standing};
use crate::unit::Unit;

/// The right to act for a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What its writes are made under; none where nobody else could hold the unit.
    pub fence: Option<Fence>,
}

impl Claim {
    /// Since when it holds: whoever acts on it must have seen everything up to here.
    #[must_use]
    pub fn epoch(&self) -> Revision {
        self.fence.as_ref().map_or(Revision::ZERO, |fence| fence.epoch)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// Nobody else could hold anything.
    Everything,
    /// These, each since its epoch.
    Units(Units),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Units {
    mine: Arc<BTreeMap<Unit, Revision>>,
    /// All that anybody holds, as far as it is known here.
    anybodys: Arc<BTreeMap<Unit, Revision>>,
}

impl Default for Held {
    fn default() -> Self {
        Self::Units(Units::default())
    }
}

/// What this process may act for, as its actors see it. Clones see the same.
#[derive(Clone, Debug)]
pub struct Placement {
    /// `None`: everything, for good.
    told: Option<Holder>,
}

impl Default for Placement {
    fn default() -> Self {
        Self::everything()
    }
}

/// Says what this process holds.
#[derive(Clone, Debug)]
pub struct Holder {
    held: Arc<Watched<Held>>,
    outside: Arc<Watched<Outside>>,
}

impl Placement {
    /// Of the only process there is: it holds every unit, and nobody has to be fenced off.
    #[must_use]
    pub const fn everything() -> Self {
        Self { told: None }
    }

    /// Whether this process holds everything, for good.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.told.is_none()
    }

    /// Of one process among several; it holds nothing yet.
    #[must_use]
    pub fn shared() -> (Holder, Self) {
        let holder = Holder { held: Arc::new(Watched::new(Held::default())), outside: Arc::default() };
        (holder.clone(), Self { told: Some(holder) })
    }

    /// The claim to a unit, if this process holds it.
    #[must_use]
    pub fn claim(&self, unit: &Unit) -> Option<Claim> {
        let Some(told) = &self.told else { return Some(Claim { fence: None }) };
        told.held.with(|held| match held {
            Held::Everything => Some(Claim { fence: None }),
            Held::Units(units) => {
                let epoch = *units.mine.get(unit)?;
                Some(Claim { fence: Some(Fence { unit: unit.as_str().into(), epoch }) })
            }
        })
    }

    /// Under which epoch somebody holds a unit, this process or another, as far as it is known here; none where nobody else could.
    #[must_use]
    pub fn epoch(&self, unit: &Unit) -> Option<Revision> {
        self.told.as_ref()?.held.with(|held| match held {
            Held::Everything => None,
            Held::Units(units) => units.anybodys.get(unit).copied(),
        })
    }

    /// Whether this process is a member: its Lease was renewed in time and it does not leave, or nobody else could hold anything.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.told.as_ref().is_none_or(|told| told.outside.with(|outside| outside.stands(clock::now())))
    }

    /// Follows changes from now on.
    #[must_use]
    pub fn follow(&self) -> Changes {
        Changes(self.told.as_ref().map(|told| told.held.follow()))
    }

    /// The right to one call outside of the API, for the unit that the work is done for whose [scope](fence::scope) runs. Ask for it right before the call,
    /// whatever was true a moment ago.
    ///
    /// # Errors
    /// [`NoPermit`]: decide again later.
    pub fn permit(&self, unit: &Unit) -> Result<Permit, NoPermit> {
        let claim = self.claim(unit).ok_or(NoPermit::NotHeld)?;
        // What was decided under an earlier claim was decided on older caches.
        if claim.fence != fence::current() {
            return Err(NoPermit::NotHeld);
        }
        match &self.told {
            None => Ok(Permit::alone(clock::now())),
            Some(told) => Permit::of(&told.outside, claim.fence, clock::now()),
        }
    }

    /// A write under `fence` was refused: the unit belongs to somebody else. Nothing is done for it from here on.
    pub fn lost(&self, fence: &Fence) {
        let Some(told) = &self.told else { return };
        told.held.modify(|held| {
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

/// Tells when what is held has changed.
#[derive(Debug)]
pub struct Changes(Option<Follower<Held>>);

impl Changes {
    /// Waits for the next change; for ever where everything is held.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(held) => held.changed().await,
            None => std::future::pending().await,
        }
    }
}

impl Holder {
    /// From now on these are held, each since its epoch.
    pub fn set(&self, units: BTreeMap<Unit, Revision>) {
        self.set_among(units.clone(), units);
    }

    /// As [`Holder::set`]; `anybodys` are all units that anybody holds, each since its epoch.
    pub fn set_among(&self, mine: BTreeMap<Unit, Revision>, anybodys: BTreeMap<Unit, Revision>) {
        self.replace(Held::Units(Units { mine: Arc::new(mine), anybodys: Arc::new(anybodys) }));
    }

    /// From now on everything is: the server knows no Assignments, so nobody can be given any.
    pub fn set_everything(&self) {
        self.outside.modify(|outside| outside.stand(Standing::Alone));
        self.replace(Held::Everything);
    }

    /// This process's Lease was renewed at this revision, by a request that was begun at `asked`, and stands so long.
    pub fn renewed(&self, asked: Instant, lasts: Duration, revision: Revision) {
        self.outside.modify(|outside| {
            outside.renewed((asked, clock::now()), lasts, revision);
            false
        });
    }

    /// Whether a claim of this epoch is good for nothing outside any more, because the Lease has run out since. One writes the Assignment again, then.
    #[must_use]
    pub fn is_void(&self, epoch: Revision) -> bool {
        self.outside.with(|outside| epoch <= outside.since())
    }

    /// From now on no call outside begins; returns when those that have begun are over, at their deadlines at the latest.
    pub async fn cease(&self) {
        self.outside.modify(|outside| outside.stand(Standing::Nowhere));
        let Some(last) = self.outside.with(Outside::last) else { return };
        // Past its deadline nothing of a call goes on either.
        let _late = clock::timeout_at(last, self.outside.wait_for(|outside| outside.last().is_none())).await;
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
        // What is refused is an old claim: the present one stands.
        placement.lost(&Fence { epoch: Revision(6), ..fence.clone() });
        assert!(placement.claim(&one).is_some());
        placement.lost(&fence);
        changes.next().await;
        assert_eq!((placement.claim(&one), placement.claim(&two).is_some()), (None, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_stands_as_long_as_its_lease_and_not_when_it_leaves() {
        let (holder, placement) = Placement::shared();
        assert!(!placement.stands(), "not renewed yet");
        holder.renewed(clock::now(), Duration::from_secs(15), Revision(7));
        assert!(placement.stands());
        clock::sleep(Duration::from_secs(13)).await;
        assert!(!placement.stands(), "others may judge soon");
        holder.renewed(clock::now(), Duration::from_secs(15), Revision(8));
        assert!(placement.stands());
        holder.cease().await;
        assert!(!placement.stands(), "it leaves");
        holder.set_everything();
        assert!(placement.stands() && Placement::everything().stands());
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

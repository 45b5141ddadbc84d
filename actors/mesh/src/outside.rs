//! When a process may act outside of the API.
//!
//! A write is compared with its unit's epoch in the commit; what a cloud does is compared with nothing that we know of. So effects outside rest on clocks: a unit
//! that has them goes to somebody else no sooner than its holder's Lease has run out in the eyes of the others, and its holder stops itself [`MARGIN`]
//! earlier, by its own monotonic clock, counted from before it asked for the renewal. No call may last beyond that. Whoever slept looks at the clock before
//! it calls; what was true when it fell asleep counts for nothing.
//!
//! A Lease that ran out for a while is no bridge to the time before: somebody may have taken over, or may be about to, and this process has not seen it yet. So a
//! claim that is older than the renewal is void, until the unit's Assignment was written again, which succeeds only if nobody else has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::Fence;
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, Watched};
use oarlock_seeded_bug::seeded_bug;

/// So much earlier than its Lease may seem to run out a holder is done outside: clocks do not run quite alike, and others stop late.
pub const MARGIN: Duration = Duration::from_secs(3);
/// No call lasts longer: who ends in order waits for it.
pub const LONGEST: Duration = Duration::from_secs(6);
/// A call that would have less is not begun.
const SHORTEST: Duration = Duration::from_secs(1);

/// Until when a process may act outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not at all: it has no Lease yet, or it ends.
    #[default]
    Nowhere,
    /// Until then.
    Until(Instant),
    /// Nobody else could act.
    Alone,
}

impl Standing {
    /// Of a Lease that stands so long, renewed by a request that was begun at `asked`.
    #[must_use]
    pub fn renewed(asked: Instant, lasts: Duration) -> Self {
        Self::Until(asked + lasts.saturating_sub(MARGIN))
    }

    /// When a call has to be over that begins `now`; none if it may not begin.
    #[must_use]
    pub fn deadline(self, now: Instant) -> Option<Instant> {
        let longest = now + LONGEST;
        match self {
            Self::Nowhere => None,
            Self::Alone => Some(longest),
            Self::Until(_) if seeded_bug!("cloud_acts_unrenewed") => Some(longest),
            Self::Until(end) => (now + SHORTEST <= end).then(|| longest.min(end)),
        }
    }
}

/// No call may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPermit {
    /// The unit is not held, or since another epoch than the work was begun at.
    #[error("the unit is somebody else's")]
    NotHeld,
    /// The Lease was not renewed in time, or the process ends.
    #[error("the Lease of this process does not stand long enough for a call")]
    NoStanding,
}

/// What a process may do outside, and what of it is going on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    standing: Standing,
    /// Since this revision its Lease has stood without a gap; no claim is good that is older.
    since: Revision,
    /// Calls that may still have effects, and until when.
    open: BTreeMap<u64, Instant>,
    calls: u64,
}

impl Outside {
    /// What holds from now on; whether it is news.
    pub(crate) fn stand(&mut self, standing: Standing) -> bool {
        let changed = self.standing != standing;
        self.standing = standing;
        changed
    }

    /// The Lease was renewed at this revision, by a request that was begun at `asked` and is answered `now`.
    pub(crate) fn renewed(&mut self, (asked, now): (Instant, Instant), lasts: Duration, revision: Revision) {
        // When the answer came, and not when it was asked for: in between somebody may have judged.
        let stood = matches!(self.standing, Standing::Until(end) if now <= end);
        if !stood && !seeded_bug!("cloud_claim_outlives_lease") {
            self.since = revision;
        }
        self.standing = Standing::renewed(asked, lasts);
    }

    /// Whether this process's Lease stands, or needs not to.
    pub(crate) fn stands(&self, now: Instant) -> bool {
        match self.standing {
            Standing::Nowhere => false,
            Standing::Until(end) => now <= end,
            Standing::Alone => true,
        }
    }

    /// Since when no claim is good that is older.
    pub(crate) fn since(&self) -> Revision {
        self.since
    }

    /// When the last of the open calls is over at the latest.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.open.values().max().copied()
    }

    fn begin(&mut self, now: Instant) -> Option<(u64, Instant)> {
        self.open.retain(|_, deadline| *deadline > now);
        let deadline = self.standing.deadline(now)?;
        self.calls += 1;
        self.open.insert(self.calls, deadline);
        Some((self.calls, deadline))
    }
}

/// The right to one call outside. Dropped without [`Permit::over`] the call counts as going on until its deadline.
#[derive(Debug)]
pub struct Permit {
    /// For which unit and since which epoch: goes along, so that who is called can refuse what comes late. None where nobody else could act.
    pub fence: Option<Fence>,
    /// When the call has to be over, at the other end too.
    pub deadline: Instant,
    open: Option<(Arc<Watched<Outside>>, u64)>,
}

impl Permit {
    pub(crate) fn alone(now: Instant) -> Self {
        Self { fence: None, deadline: now + LONGEST, open: None }
    }

    pub(crate) fn of(outside: &Arc<Watched<Outside>>, fence: Option<Fence>, now: Instant) -> Result<Self, NoPermit> {
        let mut begun = Err(NoPermit::NotHeld);
        outside.modify(|outside| {
            if fence.as_ref().is_none_or(|fence| fence.epoch > outside.since) {
                begun = outside.begin(now).ok_or(NoPermit::NoStanding);
            }
            false
        });
        let (call, deadline) = begun?;
        Ok(Self { fence, deadline, open: Some((outside.clone(), call)) })
    }

    /// The other end has said what became of the call.
    pub fn over(self) {
        if let Some((outside, call)) = &self.open {
            outside.modify(|outside| outside.open.remove(call).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_client::fence;
    use oarlock_runtime::{Universe, clock};

    use super::*;
    use crate::{Placement, Unit};

    const LEASE: Duration = Duration::from_secs(15);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_call_is_over_a_margin_before_the_lease_can_seem_to_have_run_out() {
        let asked = clock::now();
        let standing = Standing::renewed(asked, LEASE);
        for millis in (0..30_000).step_by(10) {
            let now = asked + Duration::from_millis(millis);
            let deadline = standing.deadline(now);
            assert_eq!(deadline.is_some(), millis <= 11_000, "after {millis} ms");
            let Some(deadline) = deadline else { continue };
            assert!(deadline + MARGIN <= asked + LEASE && deadline <= now + LONGEST, "after {millis} ms");
            assert!(deadline >= now + SHORTEST, "after {millis} ms");
        }
        assert_eq!(Standing::Nowhere.deadline(asked), None);
        assert_eq!(Standing::Alone.deadline(asked), Some(asked + LONGEST));
    }

    #[test]
    fn who_slept_may_call_again_only_when_its_lease_is_renewed() {
        Universe::sweep(0..1, || async {
            let (holder, placement) = Placement::shared();
            let unit = Unit::named("cloud");
            holder.set(BTreeMap::from([(unit.clone(), Revision(7))]));
            let claim = placement.claim(&unit).unwrap().fence;
            fence::scope(claim.clone(), async {
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::NoStanding, "it has no Lease yet");
                holder.renewed(clock::now(), LEASE, Revision(3));
                assert_eq!(placement.permit(&unit).unwrap().fence, claim);
                clock::sleep(seconds(10)).await;
                holder.renewed(clock::now(), LEASE, Revision(8));
                assert_eq!(placement.permit(&unit).unwrap().fence, claim, "it never ceased to stand");
                clock::sleep(LEASE).await;
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::NoStanding);
                // Somebody else may hold the unit by now, whatever is known here.
                holder.renewed(clock::now(), LEASE, Revision(12));
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::NotHeld);
                assert!(holder.is_void(Revision(7)));
                holder.set(BTreeMap::from([(unit.clone(), Revision(13))]));
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::NotHeld, "decided under the old claim");
            })
            .await;
            let claim = placement.claim(&unit).unwrap().fence;
            fence::scope(claim, async { assert!(placement.permit(&unit).is_ok()) }).await;
        });
    }

    #[test]
    fn a_renewal_that_is_answered_late_bridges_no_gap() {
        Universe::sweep(0..1, || async {
            let (holder, placement) = Placement::shared();
            let unit = Unit::named("cloud");
            holder.set(BTreeMap::from([(unit.clone(), Revision(7))]));
            holder.renewed(clock::now(), LEASE, Revision(3));
            clock::sleep(seconds(5)).await;
            let asked = clock::now();
            clock::sleep(seconds(10)).await;
            holder.renewed(asked, LEASE, Revision(9));
            let claim = placement.claim(&unit).unwrap().fence;
            fence::scope(claim, async { assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::NotHeld) }).await;
        });
    }

    #[test]
    fn who_ends_begins_nothing_and_waits_for_what_has_begun() {
        Universe::sweep(0..1, || async {
            let (holder, placement) = Placement::shared();
            let unit = Unit::named("cloud");
            holder.set(BTreeMap::from([(unit.clone(), Revision(7))]));
            holder.renewed(clock::now(), LEASE, Revision(3));
            let began = clock::now();
            fence::scope(placement.claim(&unit).unwrap().fence, async {
                let answered = placement.permit(&unit).unwrap();
                let call = async {
                    clock::sleep(seconds(2)).await;
                    answered.over();
                };
                futures::join!(holder.cease(), call);
                assert_eq!(began.elapsed(), seconds(2));
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::NoStanding);
            })
            .await;
            holder.renewed(clock::now(), LEASE, Revision(8));
            holder.set(BTreeMap::from([(unit.clone(), Revision(9))]));
            fence::scope(placement.claim(&unit).unwrap().fence, async {
                // Nobody knows what became of this one.
                drop(placement.permit(&unit).unwrap());
                let again = clock::now();
                holder.cease().await;
                assert_eq!(again.elapsed(), LONGEST);
            })
            .await;
        });
    }

    #[test]
    fn the_only_process_may_always() {
        let permit = Placement::everything().permit(&Unit::named("cloud")).unwrap();
        assert_eq!(permit.fence, None);
        permit.over();
    }
}

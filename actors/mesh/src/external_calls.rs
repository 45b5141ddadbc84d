//! Permits for calls outside of the API, such as calls to a cloud.
//!
//! An API write is compared with its unit's epoch in the commit; a cloud compares nothing. Calls outside of the API therefore depend on clocks. A unit with
//! such calls moves to another process only after its holder's Lease has expired as seen by the others. The holder stops [`EXPIRY_MARGIN`] earlier, by its own
//! monotonic clock, counted from before the renewal request. No call may last longer. A process that was paused checks the clock before each call, so a
//! permit from before the pause is not used after it.
//!
//! A renewal after the Lease had expired does not revive earlier claims: another process may have taken the unit, or be about to, unknown to this process.
//! A claim older than that renewal is void until the unit's Assignment is rewritten, which succeeds only if no other process has written it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oarlock_client::Fence;
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, Watched};
use oarlock_seeded_bug::seeded_bug;

/// The time before the expiry of its Lease by which a holder's external calls have ended. Covers clock drift and calls that end late at the other side.
pub const EXPIRY_MARGIN: Duration = Duration::from_secs(3);
/// The longest external call. An orderly shutdown waits for open calls.
pub const MAX_CALL: Duration = Duration::from_secs(6);
/// The shortest time that a call must have until its deadline; otherwise the call is not begun.
const MIN_CALL: Duration = Duration::from_secs(1);

/// The time window in which a process may begin calls outside of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallWindow {
    /// No calls: the process has no Lease yet, or is shutting down.
    #[default]
    Closed,
    /// Calls that end by this time.
    Until(Instant),
    /// Any calls, because no other process could act.
    Unlimited,
}

impl CallWindow {
    /// The window of a Lease with the duration `lasts`, renewed by a request that began at `asked`.
    #[must_use]
    pub fn renewed(asked: Instant, lasts: Duration) -> Self {
        Self::Until(asked + lasts.saturating_sub(EXPIRY_MARGIN))
    }

    /// Returns the deadline of a call that begins `now`; `None` if no call may begin.
    #[must_use]
    pub fn deadline(self, now: Instant) -> Option<Instant> {
        let longest = now + MAX_CALL;
        match self {
            Self::Closed => None,
            Self::Unlimited => Some(longest),
            Self::Until(_) if seeded_bug!("cloud_acts_unrenewed") => Some(longest),
            Self::Until(end) => (now + MIN_CALL <= end).then(|| longest.min(end)),
        }
    }
}

/// Why no call outside of the API may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPermit {
    /// The unit is not held, or under another epoch than the one at which the work began.
    #[error("the unit is somebody else's")]
    NotHeld,
    /// The Lease was not renewed in time, or the process is shutting down.
    #[error("the Lease of this process expires too soon for a call")]
    LeaseExpires,
}

/// The call window of a process, and its open external calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalCalls {
    window: CallWindow,
    /// The revision since which the Lease has been valid without a gap. Older claims are void.
    since: Revision,
    /// The calls in flight with their deadlines.
    open: BTreeMap<u64, Instant>,
    calls: u64,
}

impl ExternalCalls {
    /// Sets the window; returns whether it has changed.
    pub(crate) fn set_window(&mut self, window: CallWindow) -> bool {
        let changed = self.window != window;
        self.window = window;
        changed
    }

    /// Records a renewal of the Lease at `revision`, by a request that began at `asked` and was answered `now`.
    pub(crate) fn renewed(&mut self, (asked, now): (Instant, Instant), lasts: Duration, revision: Revision) {
        // The time of the answer counts, not of the request: the Lease may have expired for the other processes in between.
        let was_open = matches!(self.window, CallWindow::Until(end) if now <= end);
        if !was_open && !seeded_bug!("cloud_claim_outlives_lease") {
            self.since = revision;
        }
        self.window = CallWindow::renewed(asked, lasts);
    }

    /// Whether this process's Lease is valid, or the process needs none.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        match self.window {
            CallWindow::Closed => false,
            CallWindow::Until(end) => now <= end,
            CallWindow::Unlimited => true,
        }
    }

    /// Returns the revision up to which claims are void.
    pub(crate) fn since(&self) -> Revision {
        self.since
    }

    /// Returns the latest deadline of the open calls.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.open.values().max().copied()
    }

    fn begin(&mut self, now: Instant) -> Option<(u64, Instant)> {
        self.open.retain(|_, deadline| *deadline > now);
        let deadline = self.window.deadline(now)?;
        self.calls += 1;
        self.open.insert(self.calls, deadline);
        Some((self.calls, deadline))
    }
}

/// The right to one call outside of the API. If dropped without [`Permit::end`], the call counts as in flight until its deadline.
#[derive(Debug)]
pub struct Permit {
    /// The unit and epoch of the call, to be passed along so that the called system can refuse late calls. `None` if no other process could act.
    pub fence: Option<Fence>,
    /// The time by which the call must have ended, at the called system too.
    pub deadline: Instant,
    open: Option<(Arc<Watched<ExternalCalls>>, u64)>,
}

impl Permit {
    pub(crate) fn alone(now: Instant) -> Self {
        Self { fence: None, deadline: now + MAX_CALL, open: None }
    }

    pub(crate) fn of(
        external: &Arc<Watched<ExternalCalls>>,
        fence: Option<Fence>,
        now: Instant,
    ) -> Result<Self, NoPermit> {
        let mut begun = Err(NoPermit::NotHeld);
        external.modify(|external| {
            if fence.as_ref().is_none_or(|fence| fence.epoch > external.since) {
                begun = external.begin(now).ok_or(NoPermit::LeaseExpires);
            }
            false
        });
        let (call, deadline) = begun?;
        Ok(Self { fence, deadline, open: Some((external.clone(), call)) })
    }

    /// Records that the called system has answered.
    pub fn end(self) {
        if let Some((external, call)) = &self.open {
            external.modify(|external| external.open.remove(call).is_some());
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
        let window = CallWindow::renewed(asked, LEASE);
        for millis in (0..30_000).step_by(10) {
            let now = asked + Duration::from_millis(millis);
            let deadline = window.deadline(now);
            assert_eq!(deadline.is_some(), millis <= 11_000, "after {millis} ms");
            let Some(deadline) = deadline else { continue };
            assert!(deadline + EXPIRY_MARGIN <= asked + LEASE && deadline <= now + MAX_CALL, "after {millis} ms");
            assert!(deadline >= now + MIN_CALL, "after {millis} ms");
        }
        assert_eq!(CallWindow::Closed.deadline(asked), None);
        assert_eq!(CallWindow::Unlimited.deadline(asked), Some(asked + MAX_CALL));
    }

    #[test]
    fn who_slept_may_call_again_only_when_its_lease_is_renewed() {
        Universe::sweep(0..1, || async {
            let (holder, placement) = Placement::shared();
            let unit = Unit::named("cloud");
            holder.set(BTreeMap::from([(unit.clone(), Revision(7))]));
            let claim = placement.claim(&unit).unwrap().fence;
            fence::scope(claim.clone(), async {
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::LeaseExpires, "it has no Lease yet");
                holder.renewed(clock::now(), LEASE, Revision(3));
                assert_eq!(placement.permit(&unit).unwrap().fence, claim);
                clock::sleep(seconds(10)).await;
                holder.renewed(clock::now(), LEASE, Revision(8));
                assert_eq!(placement.permit(&unit).unwrap().fence, claim, "its Lease never expired");
                clock::sleep(LEASE).await;
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::LeaseExpires);
                // Another process may hold the unit by now, unknown to this process.
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
                    answered.end();
                };
                futures::join!(holder.close_external_calls(), call);
                assert_eq!(began.elapsed(), seconds(2));
                assert_eq!(placement.permit(&unit).unwrap_err(), NoPermit::LeaseExpires);
            })
            .await;
            holder.renewed(clock::now(), LEASE, Revision(8));
            holder.set(BTreeMap::from([(unit.clone(), Revision(9))]));
            fence::scope(placement.claim(&unit).unwrap().fence, async {
                // The outcome of this call is unknown.
                drop(placement.permit(&unit).unwrap());
                let again = clock::now();
                holder.close_external_calls().await;
                assert_eq!(again.elapsed(), MAX_CALL);
            })
            .await;
        });
    }

    #[test]
    fn the_only_process_may_always() {
        let permit = Placement::everything().permit(&Unit::named("cloud")).unwrap();
        assert_eq!(permit.fence, None);
        permit.end();
    }
}

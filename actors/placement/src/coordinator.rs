//! The coordinator: the one member of a role that assigns the role's units to members.
//!
//! Coordination is itself a unit with an Assignment (`coordinator-<role>`), which fences the coordinator's writes: of two members that both believe
//! to be the coordinator only one can write. The first working member, by name, takes the unit when no working member holds it. A coordinator that is
//! shutting down keeps assigning units, its own too, until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use oarlock_client::{DeleteOptions, Fence, fence};
use oarlock_informer::Cache;
use oarlock_mesh::Unit;
use oarlock_meta::{Revision, Status};
use oarlock_runtime::kind::{OnShutdown, OnSpin};
use oarlock_runtime::{ActorKind, Failure, Instant, LoopCtx, Phase, clock};
use oarlock_schema::Str;

use crate::crew::{Crew, stopped};
use crate::liveness::{Lease, Liveness};
use crate::plan::{Held, State, may_wait, plan};
use crate::settling::Settling;
use crate::view::{AssignmentView, LeaseView, NAMESPACE, is_leaving};

/// The actor kind of coordinators.
pub(crate) static COORDINATOR: ActorKind = ActorKind {
    name: "placement.coordinator",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Crew,
    on_spin: OnSpin::Abort,
    ..ActorKind::DEFAULT
};

/// The longest time between two plans, even without a change, because units are balanced in several steps.
const MAX_PLAN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait for the cache to show the coordinator's own writes.
const OWN_WRITES_WAIT: Duration = Duration::from_secs(2);
/// The most changed keys that wait for a subscriber.
const MAX_PENDING_CHANGES: usize = 1024;
/// The number of Assignments that are written concurrently.
const CONCURRENT_WRITES: usize = 8;

/// Assigns units while this member is the coordinator, until the actor is stopped.
///
/// # Errors
/// When the informers cannot be started; the actor is then restarted.
pub(crate) async fn run(ctx: LoopCtx, crew: Arc<Crew>) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        return stopped(&ctx).await;
    }
    let (leases, assignments) = crew.caches().await?;
    if !crew.synced(&ctx).await {
        return Ok(());
    }
    let (mut members, mut units) = (leases.subscribe(MAX_PENDING_CHANGES), assignments.subscribe(MAX_PENDING_CHANGES));
    let post = Unit::named(&format!("coordinator-{}", crew.role));
    let silent = crew.silent.clone();
    let mut coordinator = Coordinator {
        live: Liveness::new(crew.me.clone()),
        known: Revision::ZERO,
        settling: Settling::default(),
        post,
        crew,
        leases,
        assignments,
    };
    loop {
        ctx.heartbeat();
        let known = silent.get();
        let wake = ctx.protected(coordinator.look(&known)).await;
        let change = async {
            tokio::select! {
                biased;
                _ = members.next() => {}
                _ = units.next() => {}
                _ = silent.wait_for(|now| *now != known) => {}
                () = clock::sleep_until(wake) => {}
            }
        };
        if ctx.or_stop(change).await.is_none() {
            return Ok(());
        }
    }
}

/// The holder of each unit, with the epoch of the Assignment.
type Holders = BTreeMap<String, (Str, Revision)>;

/// The state of one member's coordinator actor, whether or not the member is the coordinator now.
struct Coordinator {
    crew: Arc<Crew>,
    leases: Arc<Cache<LeaseView>>,
    assignments: Arc<Cache<AssignmentView>>,
    live: Liveness,
    /// The revision of the Leases cache at the last judgement of the members.
    known: Revision,
    settling: Settling,
    post: Unit,
}

impl Coordinator {
    /// Judges the members, and assigns units if this member is the coordinator. Returns when to run again without a change.
    async fn look(&mut self, silent: &BTreeSet<Str>) -> Instant {
        let now = clock::now();
        let held: Holders = self
            .assignments
            .list()
            .iter()
            .map(|unit| (unit.meta.name().to_owned(), (unit.value.holder.clone(), unit.meta.revision)))
            .collect();
        self.settling.see(held.iter().map(|(unit, (_, epoch))| (unit, *epoch)), now);
        // Read before the list, so that the list shows at least this revision.
        self.known = self.leases.revision();
        let leases: BTreeMap<Str, Lease> = self.leases.list().iter().map(|lease| known(lease)).collect();
        if let Some(members) = self.live.judge(&leases, silent, now)
            && let Err(status) = self.coordinate(&members, &held, now).await
        {
            tracing::info!(role = self.crew.role, %status, "coordination is tried again");
        }
        let soon = now + MAX_PLAN_INTERVAL;
        self.live.next(&leases, now).map_or(soon, |ends| ends.min(soon))
    }

    async fn coordinate(&self, members: &BTreeMap<Str, State>, held: &Holders, now: Instant) -> Result<(), Status> {
        let post = &self.post;
        match held.get(post.as_str()) {
            Some((holder, epoch)) if *holder == self.crew.me => {
                let fence = Fence { unit: post.as_str().into(), epoch: *epoch };
                fence::scope(Some(fence), self.assign_units(members, held, now)).await
            }
            Some((holder, _)) if members.get(holder) == Some(&State::Working) => Ok(()),
            Some((holder, epoch)) if may_wait(members, &self.held(post, holder, *epoch, now)) => Ok(()),
            vacant => {
                let first = members.iter().find(|(_, state)| **state == State::Working).map(|(name, _)| name);
                if first != Some(&self.crew.me) {
                    return Ok(());
                }
                tracing::info!(role = self.crew.role, member = self.crew.me.as_str(), "takes the coordinator's post");
                let written = self.crew.assign(post.as_str(), &self.crew.me, vacant.map(|(_, epoch)| *epoch)).await?;
                self.wait_until_shown(written).await;
                Ok(())
            }
        }
    }

    /// Describes a unit's present holder for the plan.
    fn held(&self, unit: &Unit, holder: &Str, epoch: Revision, now: Instant) -> Held {
        let settling = self.settling.has_just_come(unit.as_str(), now);
        let outside = self.crew.outside.contains(unit);
        // The Assignment was written, or its claim renewed, at a revision that the cached Leases have not reached.
        Held { holder: holder.clone(), settling, outside, unseen: epoch > self.known }
    }

    async fn assign_units(&self, members: &BTreeMap<Str, State>, held: &Holders, now: Instant) -> Result<(), Status> {
        let assigned = self.crew.units.iter().filter_map(|unit| Some((unit, held.get(unit.as_str())?)));
        let holders =
            assigned.map(|(unit, (holder, epoch))| (unit.clone(), self.held(unit, holder, *epoch, now))).collect();
        let moves = plan(&self.crew.units, members, &holders);
        let write = |(unit, to): (&Unit, &Str)| {
            let (from, unit, to) = (held.get(unit.as_str()).cloned(), unit.clone(), to.clone());
            async move {
                let holder = from.as_ref().map_or("", |(holder, _)| holder.as_str());
                tracing::info!(%unit, from = holder, to = to.as_str(), "unit moves");
                (self.crew.assign(unit.as_str(), &to, from.map(|(_, epoch)| epoch)).await, unit)
            }
        };
        let mut writes = stream::iter(moves.iter().map(write)).buffer_unordered(CONCURRENT_WRITES);
        let mut last = None;
        while let Some((written, unit)) = writes.next().await {
            match written {
                Ok(written) => last = last.max(Some(written)),
                Err(status) if status.is_conflict() && !status.is_stale_owner() => {
                    tracing::info!(%unit, %status, "another process has moved the unit");
                }
                Err(status) => return Err(status),
            }
        }
        drop(writes);
        if let Some(last) = last {
            self.wait_until_shown(last).await;
            return Ok(());
        }
        self.delete_expired_leases(members).await
    }

    /// Deletes the expired Leases of members, which hold no unit any more.
    async fn delete_expired_leases(&self, members: &BTreeMap<Str, State>) -> Result<(), Status> {
        for (name, _) in members.iter().filter(|(_, state)| **state == State::Expired) {
            let Some(lease) = self.leases.get(&oarlock_informer::Key::new(NAMESPACE, name.clone())) else { continue };
            let options = DeleteOptions { resource_version: Some(lease.meta.revision), ..DeleteOptions::default() };
            match self.crew.client.delete(self.crew.leases, NAMESPACE, name, options).await {
                Err(status) if !status.is_conflict() && !status.is_not_found() => return Err(status),
                _ => tracing::info!(member = name.as_str(), "expired lease deleted"),
            }
        }
        Ok(())
    }

    /// Waits until the cache shows the coordinator's own write, so that the next plan does not repeat it.
    async fn wait_until_shown(&self, written: Revision) {
        if let Err(lagging) = self.assignments.at_least(written, clock::after(OWN_WRITES_WAIT)).await {
            tracing::warn!(%lagging, "own assignments do not show");
        }
    }
}

fn known(lease: &oarlock_informer::Item<LeaseView>) -> (Str, Lease) {
    let lasts = Duration::from_secs(lease.value.seconds);
    (lease.meta.key.name.clone(), Lease { revision: lease.meta.revision, lasts, leaving: is_leaving(&lease.meta) })
}

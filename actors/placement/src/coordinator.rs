//! The one member of a role that gives out its units.
//!
//! Its own post is an Assignment like any other (`coordinator-<role>`), and what it writes is fenced by it: of two that believe to hold the post
//! only one can write. The first member at work takes it when nobody at work holds it; who leaves gives out what it has itself until then.

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

use crate::liveness::{Lease, Liveness};
use crate::plan::{Held, State, may_wait, plan};
use crate::settling::Settling;
use crate::start::{Crew, stopped};
use crate::view::{AssignmentView, LeaseView, NAMESPACE, is_leaving};

/// The row of coordinators.
pub(crate) static COORDINATOR: ActorKind = ActorKind {
    name: "placement.coordinator",
    on_shutdown: OnShutdown::Finish,
    phase: Phase::Crew,
    on_spin: OnSpin::Abort,
    ..ActorKind::DEFAULT
};

/// A look around without any change, so that balance comes in steps.
const LOOK: Duration = Duration::from_secs(1);
/// How long a write may take to show.
const SHOWN: Duration = Duration::from_secs(2);
const CHANGES: usize = 1024;
/// Assignments that are written at once.
const AT_ONCE: usize = 8;

/// Coordinates while this member holds the post, until it is stopped.
///
/// # Errors
/// When the caches cannot be had; the actor is then restarted.
pub(crate) async fn run(ctx: LoopCtx, crew: Arc<Crew>) -> Result<(), Failure> {
    if !crew.is_served(&ctx).await {
        return stopped(&ctx).await;
    }
    let (leases, assignments) = crew.caches().await?;
    if !crew.synced(&ctx).await {
        return Ok(());
    }
    let (mut members, mut units) = (leases.subscribe(CHANGES), assignments.subscribe(CHANGES));
    let post = Unit::named(&format!("coordinator-{}", crew.role));
    let silent = crew.silent.clone();
    let mut desk = Desk {
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
        let wake = ctx.protected(desk.look(&known)).await;
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

/// Who holds each unit, since which epoch.
type Holders = BTreeMap<String, (Str, Revision)>;

struct Desk {
    crew: Arc<Crew>,
    leases: Arc<Cache<LeaseView>>,
    assignments: Arc<Cache<AssignmentView>>,
    live: Liveness,
    /// Up to where the Leases are known that were judged last.
    known: Revision,
    settling: Settling,
    post: Unit,
}

impl Desk {
    /// Does what is to be done now; returns when to look again without a change.
    async fn look(&mut self, silent: &BTreeSet<Str>) -> Instant {
        let now = clock::now();
        let held: Holders = self
            .assignments
            .list()
            .iter()
            .map(|unit| (unit.meta.name().to_owned(), (unit.value.holder.clone(), unit.meta.revision)))
            .collect();
        self.settling.see(held.iter().map(|(unit, (_, epoch))| (unit, *epoch)), now);
        // Before they are read: as far as this they are known.
        self.known = self.leases.revision();
        let leases: BTreeMap<Str, Lease> = self.leases.list().iter().map(|lease| known(lease)).collect();
        if let Some(members) = self.live.judge(&leases, silent, now)
            && let Err(status) = self.coordinate(&members, &held, now).await
        {
            tracing::info!(role = self.crew.role, %status, "coordination is tried again");
        }
        let soon = now + LOOK;
        self.live.next(&leases, now).map_or(soon, |ends| ends.min(soon))
    }

    async fn coordinate(&self, members: &BTreeMap<Str, State>, held: &Holders, now: Instant) -> Result<(), Status> {
        let post = &self.post;
        match held.get(post.as_str()) {
            Some((holder, epoch)) if *holder == self.crew.me => {
                let fence = Fence { unit: post.as_str().into(), epoch: *epoch };
                fence::scope(Some(fence), self.give_out(members, held, now)).await
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
                self.shown(written).await;
                Ok(())
            }
        }
    }

    /// A unit's holder, and whether it has only just come there.
    fn held(&self, unit: &Unit, holder: &Str, epoch: Revision, now: Instant) -> Held {
        let settling = self.settling.has_just_come(unit.as_str(), now);
        let outside = self.crew.outside.contains(unit);
        // It was given to a member, or that one has renewed its claim, and the Leases of that moment are not known here yet.
        Held { holder: holder.clone(), settling, outside, unseen: epoch > self.known }
    }

    async fn give_out(&self, members: &BTreeMap<Str, State>, held: &Holders, now: Instant) -> Result<(), Status> {
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
        let mut writes = stream::iter(moves.iter().map(write)).buffer_unordered(AT_ONCE);
        let mut last = None;
        while let Some((written, unit)) = writes.next().await {
            match written {
                Ok(written) => last = last.max(Some(written)),
                Err(status) if status.is_conflict() && !status.is_stale_owner() => {
                    tracing::info!(%unit, %status, "unit was moved by somebody else");
                }
                Err(status) => return Err(status),
            }
        }
        drop(writes);
        if let Some(last) = last {
            self.shown(last).await;
            return Ok(());
        }
        self.bury(members).await
    }

    /// Whose time is long over, and who holds nothing any more, needs no Lease.
    async fn bury(&self, members: &BTreeMap<Str, State>) -> Result<(), Status> {
        for (name, _) in members.iter().filter(|(_, state)| **state == State::Gone) {
            let Some(lease) = self.leases.get(&oarlock_informer::Key::new(NAMESPACE, name.clone())) else { continue };
            let options = DeleteOptions { resource_version: Some(lease.meta.revision), ..DeleteOptions::default() };
            match self.crew.client.delete(self.crew.leases, NAMESPACE, name, options).await {
                Err(status) if !status.is_conflict() && !status.is_not_found() => return Err(status),
                _ => tracing::info!(member = name.as_str(), "is gone"),
            }
        }
        Ok(())
    }

    /// Waits until the cache shows a write of one's own, so that it is not made twice.
    async fn shown(&self, written: Revision) {
        if let Err(lagging) = self.assignments.at_least(written, clock::after(SHOWN)).await {
            tracing::warn!(%lagging, "own assignments do not show");
        }
    }
}

fn known(lease: &oarlock_informer::Item<LeaseView>) -> (Str, Lease) {
    let lasts = Duration::from_secs(lease.value.seconds);
    (lease.meta.key.name.clone(), Lease { revision: lease.meta.revision, lasts, leaving: is_leaving(&lease.meta) })
}

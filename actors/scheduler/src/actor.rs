//! The scheduler's actor: feeds the engine from informers, performs its decisions through the API under its own
//! identity, and reports results as Events and conditions.
//!
//! One loop makes all decisions, because the arbiter is serial by design. Bindings and proposals run as separate gated
//! tasks, in bounded number; the loop never waits for one of them. The actor keeps no state that cannot be read again,
//! so a new incarnation starts empty.
//!
//! A process queues the pods of the shards that it holds. The holder of the arbiter's unit carries its own decisions
//! out, and the proposals of other processes that its arbiter accepts; every other process sends its decisions as
//! proposals to that holder.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use oarlock_meta::Revision;
use oarlock_runtime::kind::{ActorKind, OnSpin, Phase};
use oarlock_runtime::{Failure, Instant, LoopCtx, clock};
use oarlock_seeded_bug::seeded_bug;

use crate::engine::Engine;
use crate::queue::Stamp;

mod attempt_metrics;
mod bind;
mod catch_up;
mod condition;
mod decide;
mod doubt;
mod duties;
mod evict;
mod hint_contexts;
mod inbox;
mod intake;
mod metrics;
mod names;
mod outcome;
mod proposal_bus;
mod proposal_messages;
mod proposals;
mod propose;
mod relay;
mod report;
mod set;
mod spans;
mod status;

#[cfg(test)]
mod tests;

use catch_up::catch_up;
use duties::Duties;
use inbox::{ProposalInbox, ReceivedBatch};
use intake::Intake;
use outcome::Outcome;
use proposal_bus::ProposalBus;
use proposals::{Answered, Proposals};
use relay::PodRelay;
use report::Reporter;
use set::SYNC_WARNING;
use status::SchedulerStatus;

pub use bind::PREEMPTION_DEADLINE;
pub use set::Config;
pub(crate) use set::Set;

/// The actor kind of schedulers.
pub static SCHEDULER: ActorKind =
    ActorKind { name: "scheduler.shard", phase: Phase::Crew, on_spin: OnSpin::Abort, ..ActorKind::DEFAULT };

/// The actor kinds of this crate.
pub static KINDS: [&ActorKind; 1] = [&SCHEDULER];

/// Bound of decisions made in one turn of the loop, before it reads events again.
const DECISIONS_PER_TURN: usize = 64;
/// Shortest interval between two publications of the status.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);

/// Runs one incarnation of a scheduler.
pub(crate) async fn run(ctx: LoopCtx, set: Arc<Set>) -> Result<(), Failure> {
    let intake = Intake::open(&set.informers, &set.config.names).await?;
    loop {
        let Some(synced) = ctx.or_stop(set.informers.synced(clock::after(SYNC_WARNING))).await else { return Ok(()) };
        match synced {
            Ok(()) => break,
            Err(error) => tracing::warn!(actor = ctx.name(), %error, "scheduler waits for its informers"),
        }
    }
    let again = ctx.incarnation() > 1 && !seeded_bug!("restart_without_catch_up");
    if again && !catch_up(&ctx, &set, &intake.pods()).await {
        return Ok(());
    }
    Shell::new(ctx, set, intake).run().await
}

/// The state of one incarnation of the scheduler.
struct Shell {
    ctx: LoopCtx,
    set: Arc<Set>,
    intake: Intake,
    engine: Engine,
    reporter: Reporter,
    binds: FuturesUnordered<BoxFuture<'static, Outcome>>,
    duties: Duties,
    proposal_bus: ProposalBus,
    relay: PodRelay,
    inbox: ProposalInbox,
    proposals: Proposals,
    /// The arbiter's epoch, in this process or another one, as last known.
    decider: Option<Revision>,
    /// Whether this turn judges proposals of other processes before pods of this process's own queue.
    others_first: bool,
    origin: Instant,
    status: SchedulerStatus,
    published: Option<Instant>,
    /// Whether the published status may be out of date.
    outdated: bool,
}

impl Shell {
    fn new(ctx: LoopCtx, set: Arc<Set>, intake: Intake) -> Self {
        let reporter = Reporter::new(set.client.clone(), set.recorder.clone(), intake.pods());
        let duties = Duties::new(&set.config.placement, intake.caches());
        Self {
            proposal_bus: ProposalBus::new(&set.config),
            relay: PodRelay::open(&ctx, &set.config, intake.pods()),
            engine: Engine::for_process(set.plugins),
            ctx,
            set,
            intake,
            duties,
            reporter,
            binds: FuturesUnordered::new(),
            inbox: ProposalInbox::default(),
            proposals: Proposals::default(),
            decider: None,
            others_first: false,
            origin: clock::now(),
            status: SchedulerStatus::default(),
            published: None,
            outdated: false,
        }
    }

    fn now(&self) -> Stamp {
        Stamp(u64::try_from((clock::now() - self.origin).as_nanos()).unwrap_or(u64::MAX))
    }

    async fn run(mut self) -> Result<(), Failure> {
        loop {
            self.ctx.heartbeat();
            let now = self.now();
            while let Some(news) = self.intake.try_next() {
                self.intake.apply(&mut self.engine, news, now);
            }
            while let Some(Some(outcome)) = self.binds.next().now_or_never() {
                self.settle(outcome);
            }
            self.update_duties(now);
            self.engine.flush(now);
            let decided = self.decide()?;
            self.reporter.send(&self.ctx, &self.duties)?;
            self.publish();
            if decided >= DECISIONS_PER_TURN {
                tokio::task::yield_now().await;
                if self.ctx.is_stopping() {
                    return Ok(());
                }
                continue;
            }
            if !self.wait().await? {
                return Ok(());
            }
        }
    }

    /// Waits for an event or a deadline; returns `false` when the actor is asked to stop.
    async fn wait(&mut self) -> Result<bool, Failure> {
        let deadline = self.wakeup();
        let ctx = self.ctx.clone();
        let (binds, reporter, intake, duties) =
            (&mut self.binds, &mut self.reporter, &mut self.intake, &mut self.duties);
        let (proposals, proposal_bus, room) = (&mut self.proposals, &mut self.proposal_bus, self.inbox.has_room());
        let event = ctx.or_stop(async {
            tokio::select! {
                biased;
                news = intake.next() => Wake::News(news),
                Some(outcome) = binds.next(), if !binds.is_empty() => Wake::Bound(Box::new(outcome)),
                answered = proposals.progress() => Wake::Answered(answered),
                asked = proposal_bus.next(), if room => Wake::Proposed(asked),
                written = reporter.progress() => Wake::Written(written),
                () = duties.next() => Wake::Nothing,
                () = clock::sleep_until(deadline) => Wake::Nothing,
            }
        });
        match event.await {
            None => return Ok(false),
            Some(Wake::News(news)) => {
                let now = self.now();
                self.intake.apply(&mut self.engine, news, now);
            }
            Some(Wake::Bound(outcome)) => self.settle(*outcome),
            Some(Wake::Answered(answered)) => self.answered(answered)?,
            Some(Wake::Proposed(asked)) => self.inbox.take(asked, clock::now()),
            Some(Wake::Written(written)) => written.done(&self.duties),
            Some(Wake::Nothing) => {}
        }
        Ok(true)
    }

    /// Returns the next deadline at which the loop has work even if no event arrives.
    fn wakeup(&self) -> Instant {
        let now = clock::now();
        let queue = self.engine.queue.next_wakeup().map(|stamp| self.origin + Duration::from_nanos(stamp.0));
        let inbox = self.inbox.wakeup(self.duties.every_shard(), now);
        let proposals = self.proposes().and_then(|_| self.proposals.wakeup(now));
        let shown = self.published.filter(|_| self.outdated).map(|at| at + PUBLISH_INTERVAL);
        queue.into_iter().chain(inbox).chain(proposals).chain(shown).min().unwrap_or_else(clock::never)
    }

    fn publish(&mut self) {
        self.outdated = self.published.is_some_and(|at| at.elapsed() < PUBLISH_INTERVAL);
        if self.outdated {
            return;
        }
        self.published = Some(clock::now());
        let shards = self.intake.parts().iter().collect();
        self.status.look(&self.engine, self.binds.len(), self.proposals.open(), shards);
        self.ctx.publish(&self.status);
        metrics::show(self.ctx.key(), &self.status);
    }
}

enum Wake {
    News(intake::News),
    Bound(Box<Outcome>),
    Answered(Answered),
    Proposed(ReceivedBatch),
    Written(report::Written),
    Nothing,
}

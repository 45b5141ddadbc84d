//! The shell around the engine: one actor that feeds it from informers, performs its decisions through the API as
//! its own identity, and tells users what came of it.
//!
//! One loop, because the arbiter is serial by design. Bindings run beside it as gated tasks, a bounded number at a
//! time; the loop never waits for one. Anything it knows it can learn again, so a new incarnation starts empty.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use oarlock_client::{Client, ListOptions};
use oarlock_informer::{Recorder, SharedInformers};
use oarlock_mesh::{Claim, Placement};
use oarlock_runtime::kind::{ActorKind, Phase};
use oarlock_runtime::{Failure, Instant, LoopCtx, LoopHandle, System, clock, rng};
use oarlock_schema::resource;

use crate::engine::{Decision, Engine};
use crate::intern::Sym;
use crate::model::PodInfo;
use crate::queue::{Popped, Stamp};

mod bind;
mod intake;
mod post;
mod seen;
mod tell;

#[cfg(test)]
mod tests;

use bind::Outcome;
use intake::Intake;
use post::Post;
use seen::Seen;
use tell::Teller;

/// The row of schedulers.
pub static SCHEDULER: ActorKind = ActorKind { name: "scheduler.shard", phase: Phase::Crew, ..ActorKind::DEFAULT };

/// The rows of this crate.
pub static KINDS: [&ActorKind; 1] = [&SCHEDULER];

/// How many decisions are made before the loop looks at events again.
const SLICE: usize = 64;
/// How long the caches may take to come up before it is said aloud.
const SYNC: Duration = Duration::from_secs(10);
/// How often the status is renewed at most.
const PUBLISH: Duration = Duration::from_millis(500);
/// Budget of one call.
const CALL: Duration = Duration::from_secs(30);

/// How a scheduler is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Values of `spec.schedulerName` it serves; the first one signs its events.
    pub names: Vec<String>,
    /// How many bindings may be under way at once.
    pub max_binds: usize,
    /// Which units this process holds.
    pub placement: Placement,
}

impl Default for Config {
    /// Serves `default-scheduler`, with 256 bindings at once.
    fn default() -> Self {
        Self { names: vec!["default-scheduler".to_owned()], max_binds: 256, placement: Placement::everything() }
    }
}

/// A scheduler could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It would serve nobody.
    #[error("no scheduler name")]
    Nameless,
    /// One of its actors could not be spawned.
    #[error("scheduler actor")]
    Spawn(#[from] oarlock_runtime::Error),
}

/// A running scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    handle: LoopHandle,
}

impl Scheduler {
    /// Starts a scheduler that reads, binds and tells as `client`'s identity (`system:kube-scheduler`).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn spawn(system: &System, client: Client, config: Config) -> Result<Self, Error> {
        let Some(name) = config.names.first().cloned() else { return Err(Error::Nameless) };
        let client = client.with_timeout(CALL);
        let recorder = Recorder::start(system, client.clone(), &name, "").await?;
        let informers = SharedInformers::new(system.clone(), client.clone(), name.clone());
        let parts = Arc::new(Parts { client, informers, recorder, config });
        let handle = system.spawn_loop(&SCHEDULER, name, move |ctx| run(ctx, Arc::clone(&parts))).await?;
        Ok(Self { handle })
    }

    /// The actor's handle.
    #[must_use]
    pub fn handle(&self) -> &LoopHandle {
        &self.handle
    }
}

/// What every incarnation is made of.
struct Parts {
    client: Client,
    informers: SharedInformers,
    recorder: Recorder,
    config: Config,
}

async fn run(ctx: LoopCtx, parts: Arc<Parts>) -> Result<(), Failure> {
    let intake = Intake::open(&parts.informers, &parts.config.names).await?;
    loop {
        let Some(synced) = ctx.or_stop(parts.informers.synced(clock::after(SYNC))).await else { return Ok(()) };
        match synced {
            Ok(()) => break,
            Err(error) => tracing::warn!(actor = ctx.name(), %error, "scheduler waits for its informers"),
        }
    }
    if ctx.incarnation() > 1 {
        catch_up(&ctx, &parts, &intake).await;
    }
    Shell::new(ctx, parts, intake).run().await
}

/// Waits until the cache has seen what the incarnation before may have bound: it must not be decided about twice.
/// The apiserver refuses a second binding anyway, so this is bounded.
async fn catch_up(ctx: &LoopCtx, parts: &Parts, intake: &Intake) {
    let caught_up = async {
        let pods = resource("", "v1", "pods").ok_or("the schema has no pods")?;
        let options = ListOptions { limit: 1, ..ListOptions::default() };
        let latest = parts.client.list(pods, "", options).await?.revision;
        intake.pods().at_least(latest, clock::after(SYNC)).await?;
        Ok::<(), Failure>(())
    };
    if let Some(Err(error)) = ctx.or_stop(caught_up).await {
        tracing::warn!(actor = ctx.name(), %error, "scheduler starts again on what its informers have");
    }
}

/// One incarnation.
struct Shell {
    ctx: LoopCtx,
    parts: Arc<Parts>,
    intake: Intake,
    engine: Engine,
    teller: Teller,
    binds: FuturesUnordered<BoxFuture<'static, Outcome>>,
    post: Post,
    origin: Instant,
    seen: Seen,
    published: Option<Instant>,
}

impl Shell {
    fn new(ctx: LoopCtx, parts: Arc<Parts>, intake: Intake) -> Self {
        let teller = Teller::new(parts.client.clone(), parts.recorder.clone(), intake.pods());
        let post = Post::new(&parts.config.placement, intake.caches());
        Self {
            ctx,
            parts,
            intake,
            post,
            engine: Engine::for_process(),
            teller,
            binds: FuturesUnordered::new(),
            origin: clock::now(),
            seen: Seen::default(),
            published: None,
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
            self.engine.flush(now);
            let decided = self.decide();
            self.teller.send(&self.ctx)?;
            self.publish();
            if decided == SLICE {
                tokio::task::yield_now().await;
                if self.ctx.is_stopping() {
                    return Ok(());
                }
                continue;
            }
            if !self.wait().await {
                return Ok(());
            }
        }
    }

    /// Makes decisions while there is room for bindings; returns how many.
    fn decide(&mut self) -> usize {
        let mut decided = 0;
        let Some(claim) = self.post.claim() else { return 0 };
        while decided < SLICE && self.binds.len() < self.parts.config.max_binds {
            let now = self.now();
            let next = self.engine.next(now, &mut |below| rng::below(u64::from(below)) as u32);
            let Some(decision) = next else { break };
            decided += 1;
            self.act(decision, &claim);
        }
        decided
    }

    fn act(&mut self, decision: Decision, claim: &Claim) {
        match decision {
            Decision::Bind { popped, node, calls } => {
                let task = bind::start(&self.ctx, &self.parts.client, claim, (popped, node), calls);
                self.binds.push(task);
            }
            Decision::Unschedulable { popped, message } => {
                self.seen.unschedulable += 1;
                self.teller.unschedulable(&popped.pod, message);
            }
            Decision::Postponed { popped, message } => {
                self.seen.failed += 1;
                self.teller.failed(&popped.pod, message);
            }
            Decision::Skipped { popped } => self.teller.skipped(&popped.pod),
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        let Outcome { popped: Popped { pod, attempt, first_attempt }, node, result } = outcome;
        match result {
            Ok(()) => {
                self.seen.bound += 1;
                self.engine.bound(&pod.uid);
                self.teller.bound(&pod, &node);
                let waited = self.now().since(first_attempt);
                tracing::debug!(pod = &*pod.name, node = &*node, attempt, ?waited, "pod bound");
            }
            Err(failure) => {
                self.seen.failed += 1;
                let now = self.now();
                self.engine.unbound(&pod.uid, &node, now);
                tracing::info!(pod = &*pod.name, node = &*node, attempt, failure = failure.text, "pod not bound");
                if let Some(fence) = &failure.stale {
                    self.post.lost(fence);
                } else if !failure.gone {
                    self.teller.failed(&pod, failure.text);
                }
            }
        }
    }

    /// Waits for anything to do; `false` when asked to stop.
    async fn wait(&mut self) -> bool {
        let deadline = self
            .engine
            .queue
            .next_wakeup()
            .map_or_else(clock::never, |stamp| self.origin + Duration::from_nanos(stamp.0));
        let ctx = self.ctx.clone();
        let (binds, teller, intake, post) = (&mut self.binds, &mut self.teller, &mut self.intake, &mut self.post);
        let event = ctx.or_stop(async {
            tokio::select! {
                biased;
                news = intake.next() => Wake::News(news),
                Some(outcome) = binds.next(), if !binds.is_empty() => Wake::Bound(Box::new(outcome)),
                () = teller.progress() => Wake::Nothing,
                () = post.next() => Wake::Nothing,
                () = clock::sleep_until(deadline) => Wake::Nothing,
            }
        });
        match event.await {
            None => return false,
            Some(Wake::News(news)) => {
                let now = self.now();
                self.intake.apply(&mut self.engine, news, now);
            }
            Some(Wake::Bound(outcome)) => self.settle(*outcome),
            Some(Wake::Nothing) => {}
        }
        true
    }

    fn publish(&mut self) {
        if self.published.is_some_and(|at| at.elapsed() < PUBLISH) {
            return;
        }
        self.published = Some(clock::now());
        self.seen.look(&self.engine, self.binds.len());
        self.ctx.publish(&self.seen);
    }
}

enum Wake {
    News(intake::News),
    Bound(Box<Outcome>),
    Nothing,
}

/// The namespace of a pod as text.
fn namespace(pod: &PodInfo) -> Arc<str> {
    text(pod.spec.namespace)
}

fn text(symbol: Sym) -> Arc<str> {
    crate::intern::Interner::process().text(symbol)
}

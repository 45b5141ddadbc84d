//! Relays pod changes from the arbiter's process to the other schedulers over the bus, so that only one process has to watch every pod.
//!
//! The relay is an optimisation only: a process that misses a message, or receives none for a second, watches the API itself from its last revision
//! (`oarlock_informer::Relay`). So does a process that has just claimed a unit, until its cache has passed the unit's epoch: that step must not depend
//! on another process.

use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_bus::{Bus, Hint, HintError, HintEvent, Hints, Pattern, Role, Subject};
use oarlock_informer::{Cache, Stretch};
use oarlock_mesh::{Claim, Placement, Scope};
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, LoopCtx, clock};
use oarlock_telemetry::traces;
use tokio::sync::oneshot;

use crate::intern::{Interner, Sym};
use crate::model::PodInfo;
use crate::project::PodView;

use super::hint_contexts::HintContexts;
use super::names::namespace;
use super::set::Config;
use super::spans;

mod stretch;
#[cfg(test)]
mod tests;

use stretch::{Samples, StretchBuilder, StretchError};

const TOPIC: &str = "pods";
/// Bound of received messages that wait to be applied.
const RECEIVE_CAPACITY: usize = 256;
/// Bound of watched changes that wait to be published.
const READ_CAPACITY: usize = 256;
/// Pause before the next message, per change in the last one: messages go out at once under low load, and receivers are woken seldom under high load.
const PAUSE_PER_CHANGE: Duration = Duration::from_micros(200);
/// Longest pause between two messages. A full message is sent without a pause.
const MAX_PAUSE: Duration = Duration::from_millis(20);
/// Time without changes after which the publisher sends an empty message, if its watch is running: receivers then know that no change was lost.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The tasks with which one incarnation of the scheduler receives and publishes pod changes. Dropping the relay stops the tasks.
pub(super) struct PodRelay {
    bus: Option<Bus>,
    placement: Placement,
    /// Values of `spec.schedulerName` that the schedulers serve.
    names: Vec<Sym>,
    pods: Arc<Cache<PodView>>,
    contexts: Arc<HintContexts>,
    _listener_task: Option<oneshot::Receiver<()>>,
    /// Epoch this process publishes under, with the guard that stops the publisher when dropped.
    publisher: Option<(Revision, oneshot::Receiver<()>)>,
}

impl PodRelay {
    /// Starts the listener that applies received changes to `pods`, if a bus is configured.
    pub(super) fn open(ctx: &LoopCtx, config: &Config, pods: Arc<Cache<PodView>>) -> Self {
        let (over, listener_task) = oneshot::channel();
        let (placement, contexts) = (config.placement.clone(), Arc::<HintContexts>::default());
        let listener_task = config.bus.clone().and_then(|bus| {
            let sink = Sink { pods: Arc::clone(&pods), samples: Samples::default(), contexts: Arc::clone(&contexts) };
            let listen = listen(bus, placement.clone(), sink, over);
            ctx.spawn("hear-pods", listen).is_ok().then_some(listener_task)
        });
        let (bus, names) = (config.bus.clone(), config.names.iter().map(|name| Interner::process().intern(name)));
        let names = names.collect();
        Self { bus, placement, names, pods, contexts, _listener_task: listener_task, publisher: None }
    }

    /// Returns the trace contexts of the hints that brought pods to this process.
    pub(super) fn contexts(&self) -> &HintContexts {
        &self.contexts
    }

    /// Publishes under `epoch` from now on and stops the publisher of any other epoch; `None` stops publishing.
    pub(super) fn publish_under(&mut self, ctx: &LoopCtx, epoch: Option<Revision>) {
        let Some(bus) = &self.bus else { return };
        if self.publisher.as_ref().map(|(epoch, _)| *epoch) == epoch {
            return;
        }
        self.publisher = None;
        let Some(epoch) = epoch else { return };
        let (over, publisher) = oneshot::channel();
        let subject = match Subject::feed(Role::Scheduler, TOPIC) {
            Ok(subject) => subject,
            Err(error) => return tracing::error!(%error, "pod changes cannot be published"),
        };
        let (placement, names) = (self.placement.clone(), self.names.clone());
        let feed = Feed { bus: bus.clone(), subject, placement, shards: crate::shards(), names };
        // A failed spawn means that this incarnation is shutting down.
        if ctx.spawn("tell-pods", publish(feed, epoch, Arc::clone(&self.pods), over)).is_ok() {
            self.publisher = Some((epoch, publisher));
        }
    }
}

/// Publishes the changes that this process's watch delivers, until the receiver of `over` is dropped.
async fn publish(feed: Feed, epoch: Revision, pods: Arc<Cache<PodView>>, mut over: oneshot::Sender<()>) {
    let mut read = pods.relay().publish(READ_CAPACITY);
    let mut samples = Samples::default();
    let (mut last, mut free): (Option<StretchBuilder>, Instant) = (None, clock::now());
    loop {
        let next = tokio::select! {
            biased;
            () = over.closed() => return,
            next = clock::timeout(HEARTBEAT_INTERVAL, read.recv()) => next,
        };
        let mut builder = match (next, &last) {
            (Ok(Some(read)), _) => StretchBuilder::of(epoch, read, &mut samples),
            (Ok(None), _) => return,
            (Err(_), Some(last)) if pods.relay().watches() => last.after(),
            (Err(_), _) => continue,
        };
        while !builder.is_full() {
            let more = clock::timeout_at(free, read.recv()).await.ok().flatten();
            let Some(read) = more.or_else(|| read.try_recv().ok()) else { break };
            if let Err(read) = builder.add(read, &mut samples) {
                feed.send(&builder).await;
                builder = StretchBuilder::of(epoch, *read, &mut samples);
            }
        }
        feed.send(&builder).await;
        free = clock::after(MAX_PAUSE.min(PAUSE_PER_CHANGE * builder.len()));
        last = Some(builder);
    }
}

/// Where pod changes are published, and which pods other processes find nodes for.
struct Feed {
    bus: Bus,
    subject: Subject,
    placement: Placement,
    shards: Scope,
    names: Vec<Sym>,
}

impl Feed {
    /// Sends a message; one that brings new pods to other processes within a span of its own.
    async fn send(&self, builder: &StretchBuilder) {
        let pods: Vec<_> = builder.new_pods().iter().filter(|pod| self.is_for_another_process(pod)).collect();
        let span = spans::relay(&pods, builder.began());
        let sent = match &span {
            Some(span) => traces::within(Some(span.context().clone()), async { self.hint(builder) }).await,
            None => self.hint(builder),
        };
        if let Some(span) = span {
            spans::relayed(span, sent.is_ok());
        }
        if let Err(error) = sent {
            // Receivers detect the gap by the revisions of the next message.
            tracing::debug!(%error, "pod changes not published");
        }
    }

    fn hint(&self, builder: &StretchBuilder) -> Result<(), HintError> {
        self.bus.hint(&self.subject, builder.message())
    }

    fn is_for_another_process(&self, pod: &PodInfo) -> bool {
        let is_held = |shard| self.placement.claim(shard).is_some();
        let shard = self.shards.unit(&namespace(pod), &pod.name);
        self.names.contains(&pod.scheduler) && shard.is_some_and(|shard| !is_held(shard))
    }
}

/// Applies published changes and sets whose epoch the relay accepts, until the receiver of `over` is dropped.
async fn listen(bus: Bus, placement: Placement, mut sink: Sink, mut over: oneshot::Sender<()>) {
    let pattern = match Pattern::feed(Role::Scheduler, TOPIC) {
        Ok(pattern) => pattern,
        Err(error) => return tracing::error!(%error, "pod changes of other processes cannot be received"),
    };
    let (mut changes, pods, mut hints) = (placement.follow(), Arc::clone(&sink.pods), None);
    loop {
        let (publisher_epoch, claimed) = (remote_epoch(&placement), newest_claim_epoch(&placement));
        let lagging = pods.revision() < claimed;
        let accepted = publisher_epoch.filter(|_| !lagging);
        pods.relay().set_publisher_epoch(accepted);
        // The publishing process does not listen to itself.
        if publisher_epoch.is_none() {
            hints = None;
        } else if hints.is_none() {
            match bus.listen(&pattern, RECEIVE_CAPACITY).await {
                Ok(received) => hints = Some(received),
                Err(error) => return tracing::error!(%error, "pod changes of other processes cannot be received"),
            }
        }
        loop {
            tokio::select! {
                biased;
                () = over.closed() => return pods.relay().set_publisher_epoch(None),
                () = changes.next() => break,
                () = wait_for_revision(&pods, claimed), if lagging => break,
                received = next(&mut hints) => match received {
                    HintEvent::Hint(hint) => sink.apply(&hint, accepted),
                    // The next message's start revision reveals the gap.
                    HintEvent::Lost(_) => {}
                },
            }
        }
    }
}

async fn next(hints: &mut Option<Hints>) -> HintEvent {
    match hints {
        Some(hints) => hints.next().await,
        None => std::future::pending().await,
    }
}

/// Where received pod changes go.
struct Sink {
    pods: Arc<Cache<PodView>>,
    samples: Samples,
    contexts: Arc<HintContexts>,
}

impl Sink {
    /// Passes the changes on to the relay, which accepts those of the epoch `accepted`.
    fn apply(&mut self, hint: &Hint, accepted: Option<Revision>) {
        let opened = hint.body::<wire::Stretch>().map_err(StretchError::from);
        let opened = opened.and_then(|message| stretch::open(message, &self.pods, &mut self.samples));
        match opened {
            Ok((epoch, stretch)) => {
                if accepted == Some(epoch) {
                    self.remember(hint, &stretch);
                }
                self.pods.relay().receive(epoch, stretch);
            }
            Err(error) => tracing::warn!(%error, sender = %hint.sender(), "received pod changes cannot be decoded"),
        }
    }

    /// Remembers a hint's trace context, unless a watch of this process brings the pods.
    fn remember(&self, hint: &Hint, stretch: &Stretch<PodView>) {
        if let Some(context) = hint.trace()
            && traces::recording()
            && !self.pods.relay().watches()
        {
            let revisions = (stretch.from.get(), stretch.to.get());
            self.contexts.remember(stretch.series, revisions, context.clone());
        }
    }
}

async fn wait_for_revision(pods: &Cache<PodView>, revision: Revision) {
    pods.watch_progress().wait_for(|progress| progress.synced && progress.revision >= revision).await;
}

/// Returns the arbiter's epoch if another process holds the arbiter's unit.
fn remote_epoch(placement: &Placement) -> Option<Revision> {
    let arbiter = crate::arbiter_unit();
    placement.epoch(&arbiter).filter(|_| placement.claim(&arbiter).is_none())
}

/// Returns the highest epoch among the units that this process has claimed.
fn newest_claim_epoch(placement: &Placement) -> Revision {
    let claims = crate::units().into_iter().filter_map(|unit| placement.claim(&unit));
    claims.map(|claim: Claim| claim.epoch()).max().unwrap_or_default()
}

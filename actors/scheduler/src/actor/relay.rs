//! Relays pod changes from the arbiter's process to the other schedulers over the bus, so that only one process has to watch every pod.
//!
//! The relay is an optimisation only: a process that misses a message, or receives none for a second, watches the API itself from its last revision
//! (`oarlock_informer::Relay`). So does a process that has just claimed a unit, until its cache has passed the unit's epoch: that step must not depend
//! on another process.

use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_bus::{Bus, Hint, HintEvent, Hints, Pattern, Role, Subject};
use oarlock_informer::Cache;
use oarlock_mesh::{Claim, Placement};
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, LoopCtx, clock};
use tokio::sync::oneshot;

use crate::project::PodView;

use super::set::Config;

mod stretch;

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
    pods: Arc<Cache<PodView>>,
    _listener_task: Option<oneshot::Receiver<()>>,
    /// Epoch this process publishes under, with the guard that stops the publisher when dropped.
    publisher: Option<(Revision, oneshot::Receiver<()>)>,
}

impl PodRelay {
    /// Starts the listener that applies received changes to `pods`, if a bus is configured.
    pub(super) fn open(ctx: &LoopCtx, config: &Config, pods: Arc<Cache<PodView>>) -> Self {
        let (over, listener_task) = oneshot::channel();
        let listener_task = config.bus.clone().and_then(|bus| {
            let listen = listen(bus, config.placement.clone(), Arc::clone(&pods), over);
            ctx.spawn("hear-pods", listen).is_ok().then_some(listener_task)
        });
        Self { bus: config.bus.clone(), pods, _listener_task: listener_task, publisher: None }
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
        // A failed spawn means that this incarnation is shutting down.
        if ctx.spawn("tell-pods", publish(bus.clone(), epoch, Arc::clone(&self.pods), over)).is_ok() {
            self.publisher = Some((epoch, publisher));
        }
    }
}

/// Publishes the changes that this process's watch delivers, until the receiver of `over` is dropped.
async fn publish(bus: Bus, epoch: Revision, pods: Arc<Cache<PodView>>, mut over: oneshot::Sender<()>) {
    let mut read = pods.relay().publish(READ_CAPACITY);
    let subject = match Subject::feed(Role::Scheduler, TOPIC) {
        Ok(subject) => subject,
        Err(error) => return tracing::error!(%error, "pod changes cannot be published"),
    };
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
                send(&bus, &subject, &builder);
                builder = StretchBuilder::of(epoch, *read, &mut samples);
            }
        }
        send(&bus, &subject, &builder);
        free = clock::after(MAX_PAUSE.min(PAUSE_PER_CHANGE * builder.len()));
        last = Some(builder);
    }
}

fn send(bus: &Bus, subject: &Subject, builder: &StretchBuilder) {
    if let Err(error) = bus.hint(subject, builder.message()) {
        // Receivers detect the gap by the revisions of the next message.
        tracing::debug!(%error, "pod changes not published");
    }
}

/// Applies published changes and sets whose epoch the relay accepts, until the receiver of `over` is dropped.
async fn listen(bus: Bus, placement: Placement, pods: Arc<Cache<PodView>>, mut over: oneshot::Sender<()>) {
    let pattern = match Pattern::feed(Role::Scheduler, TOPIC) {
        Ok(pattern) => pattern,
        Err(error) => return tracing::error!(%error, "pod changes of other processes cannot be received"),
    };
    let (mut changes, mut samples) = (placement.follow(), Samples::default());
    let mut hints = None;
    loop {
        let (publisher_epoch, claimed) = (remote_epoch(&placement), newest_claim_epoch(&placement));
        let lagging = pods.revision() < claimed;
        pods.relay().set_publisher_epoch(publisher_epoch.filter(|_| !lagging));
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
                    HintEvent::Hint(hint) => apply(&hint, &pods, &mut samples),
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

fn apply(hint: &Hint, pods: &Cache<PodView>, samples: &mut Samples) {
    let opened = hint.body::<wire::Stretch>().map_err(StretchError::from);
    let opened = opened.and_then(|message| stretch::open(message, pods, samples));
    match opened {
        Ok((epoch, stretch)) => pods.relay().receive(epoch, stretch),
        Err(error) => tracing::warn!(%error, sender = %hint.sender(), "received pod changes cannot be decoded"),
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

//! What the arbiter's process reads of pods, told to the other schedulers over the bus, so that only one of them has to watch every pod.
//!
//! Nothing rests on it: who misses a part, or hears nothing for a second, watches by itself from where it stands (`oarlock_informer::Relay`). So does
//! who takes up a unit, until its cache has come past the unit's epoch: that must not depend on another process.

use std::sync::Arc;
use std::time::Duration;

use oarlock_bus::proto::scheduler::v1 as wire;
use oarlock_bus::{Bus, Heard, Hint, Hints, Pattern, Role, Subject};
use oarlock_informer::Cache;
use oarlock_mesh::{Claim, Placement};
use oarlock_meta::Revision;
use oarlock_runtime::{Instant, LoopCtx, clock};
use tokio::sync::oneshot;

use crate::project::PodView;

use super::Config;

mod letter;

use letter::{Letter, Samples};

const TOPIC: &str = "pods";
/// Messages that may wait to be heard.
const HEARD: usize = 256;
/// What was read and may wait to be told.
const READ: usize = 256;
/// For each change that a message tells, the next one waits so long: while little happens it goes at once, and under load those who hear are woken
/// seldom.
const REST: Duration = Duration::from_micros(200);
/// But no longer than that, and not if it is full.
const MOST: Duration = Duration::from_millis(20);
/// After so long without a message an empty one says that there was nothing to tell, if there is a watch that would have.
const HELLO: Duration = Duration::from_millis(250);

/// The tasks of one incarnation. They end when it is dropped.
pub(super) struct Feed {
    bus: Option<Bus>,
    pods: Arc<Cache<PodView>>,
    _ear: Option<oneshot::Receiver<()>>,
    /// The epoch under which is told.
    mouth: Option<(Revision, oneshot::Receiver<()>)>,
}

impl Feed {
    /// Begins to hear for `pods`, if there is a bus.
    pub(super) fn open(ctx: &LoopCtx, config: &Config, pods: Arc<Cache<PodView>>) -> Self {
        let (over, ear) = oneshot::channel();
        let ear = config.bus.clone().and_then(|bus| {
            let hear = hear(bus, config.placement.clone(), Arc::clone(&pods), over);
            ctx.spawn("hear-pods", hear).is_ok().then_some(ear)
        });
        Self { bus: config.bus.clone(), pods, _ear: ear, mouth: None }
    }

    /// From now on tells under this epoch; under none, nothing.
    pub(super) fn tell(&mut self, ctx: &LoopCtx, epoch: Option<Revision>) {
        let Some(bus) = &self.bus else { return };
        if self.mouth.as_ref().map(|(epoch, _)| *epoch) == epoch {
            return;
        }
        self.mouth = None;
        let Some(epoch) = epoch else { return };
        let (over, mouth) = oneshot::channel();
        // Otherwise this incarnation is over.
        if ctx.spawn("tell-pods", tell(bus.clone(), epoch, Arc::clone(&self.pods), over)).is_ok() {
            self.mouth = Some((epoch, mouth));
        }
    }
}

/// Tells what is read, until nobody holds the other end of `over`.
async fn tell(bus: Bus, epoch: Revision, pods: Arc<Cache<PodView>>, mut over: oneshot::Sender<()>) {
    let mut read = pods.relay().tell(READ);
    let subject = match Subject::feed(Role::Scheduler, TOPIC) {
        Ok(subject) => subject,
        Err(error) => return tracing::error!(%error, "pods cannot be told"),
    };
    let mut samples = Samples::default();
    let (mut last, mut free): (Option<Letter>, Instant) = (None, clock::now());
    loop {
        let next = tokio::select! {
            biased;
            () = over.closed() => return,
            next = clock::timeout(HELLO, read.recv()) => next,
        };
        let mut letter = match (next, &last) {
            (Ok(Some(read)), _) => Letter::of(epoch, read, &mut samples),
            (Ok(None), _) => return,
            (Err(_), Some(last)) if pods.relay().watches() => last.after(),
            (Err(_), _) => continue,
        };
        while !letter.is_full() {
            let more = clock::timeout_at(free, read.recv()).await.ok().flatten();
            let Some(read) = more.or_else(|| read.try_recv().ok()) else { break };
            if let Err(read) = letter.add(read, &mut samples) {
                send(&bus, &subject, &letter);
                letter = Letter::of(epoch, *read, &mut samples);
            }
        }
        send(&bus, &subject, &letter);
        free = clock::after(MOST.min(REST * letter.len()));
        last = Some(letter);
    }
}

fn send(bus: &Bus, subject: &Subject, letter: &Letter) {
    if let Err(error) = bus.hint(subject, letter.message()) {
        // Who hears finds it missing.
        tracing::debug!(%error, "pods not told");
    }
}

/// Hears what is told, and says who is believed, until nobody holds the other end of `over`.
async fn hear(bus: Bus, placement: Placement, pods: Arc<Cache<PodView>>, mut over: oneshot::Sender<()>) {
    let pattern = match Pattern::feed(Role::Scheduler, TOPIC) {
        Ok(pattern) => pattern,
        Err(error) => return tracing::error!(%error, "what others read of pods cannot be heard"),
    };
    let (mut changes, mut samples) = (placement.follow(), Samples::default());
    let mut hints = None;
    loop {
        let (teller, taken) = (elsewhere(&placement), newest(&placement));
        let behind = pods.revision() < taken;
        pods.relay().believe(teller.filter(|_| !behind));
        // Who tells does not listen.
        if teller.is_none() {
            hints = None;
        } else if hints.is_none() {
            match bus.listen(&pattern, HEARD).await {
                Ok(heard) => hints = Some(heard),
                Err(error) => return tracing::error!(%error, "what others read of pods cannot be heard"),
            }
        }
        loop {
            tokio::select! {
                biased;
                () = over.closed() => return pods.relay().believe(None),
                () = changes.next() => break,
                () = reach(&pods, taken), if behind => break,
                heard = next(&mut hints) => match heard {
                    Heard::Hint(hint) => take(&hint, &pods, &mut samples),
                    // The next one shows that one is missing.
                    Heard::Lost(_) => {}
                },
            }
        }
    }
}

async fn next(hints: &mut Option<Hints>) -> Heard {
    match hints {
        Some(hints) => hints.next().await,
        None => std::future::pending().await,
    }
}

fn take(hint: &Hint, pods: &Cache<PodView>, samples: &mut Samples) {
    let opened = hint.body::<wire::Stretch>().and_then(|message| letter::open(message, pods, samples));
    match opened {
        Ok((epoch, stretch)) => pods.relay().hear(epoch, stretch),
        Err(error) => tracing::warn!(error, sender = %hint.sender(), "what was told of pods cannot be read"),
    }
}

async fn reach(pods: &Cache<PodView>, revision: Revision) {
    pods.watch_progress().wait_for(|progress| progress.synced && progress.revision >= revision).await;
}

/// The epoch under which another process decides.
fn elsewhere(placement: &Placement) -> Option<Revision> {
    let arbiter = crate::arbiter_unit();
    placement.epoch(&arbiter).filter(|_| placement.claim(&arbiter).is_none())
}

/// The epoch of the unit that has come to this process last.
fn newest(placement: &Placement) -> Revision {
    let claims = crate::units().into_iter().filter_map(|unit| placement.claim(&unit));
    claims.map(|claim: Claim| claim.epoch()).max().unwrap_or_default()
}

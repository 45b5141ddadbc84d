//! An actor that behaves as a test orders, well or badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oarlock_runtime::{Actor, ActorKind, Backoff, Ctx, Exhausted, Failure, OnFailure, OnShutdown, Phase, Reply, clock};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::S;

/// Restarts after 1 s, 2 s, … at most three times in a minute, then gives up; 10 s for progress; room for 4 messages.
pub(super) static ROBUST: ActorKind = ActorKind { name: "sim.robust", ..ROBUST_ROW };
pub(super) static STOPS: ActorKind = ActorKind { name: "sim.stops", on_failure: OnFailure::StopProcess, ..ROBUST_ROW };
pub(super) static ESCALATES: ActorKind =
    ActorKind { name: "sim.escalates", on_failure: OnFailure::Escalate, ..ROBUST_ROW };
pub(super) static LOOPS: ActorKind = ActorKind { name: "sim.loops", ..ROBUST_ROW };
pub(super) static PARENT: ActorKind = ActorKind { name: "sim.parent", ..ROBUST_ROW };

pub(super) const fn restart(then: Exhausted) -> OnFailure {
    OnFailure::Restart {
        backoff: Backoff { first: S, max: Duration::from_secs(8) },
        max: 3,
        within: Duration::from_secs(60),
        then,
    }
}

pub(super) const ROBUST_ROW: ActorKind = ActorKind {
    name: "",
    on_failure: restart(Exhausted::GiveUp),
    on_shutdown: OnShutdown::Drain,
    phase: Phase::Crew,
    mailbox: 4,
    progress: Duration::from_secs(10),
    ..ActorKind::DEFAULT
};

/// The messages of the test actor.
pub(super) enum Do {
    /// Answer with the incarnation's number.
    Who(Reply<u32>),
    /// Note the number in the log.
    Note(u64),
    /// Work for the given time at an await, without a heartbeat.
    Work(Duration),
    /// Work for the given time, with a heartbeat every second.
    Labour(Duration),
    /// Wait for the given time in a protected zone.
    Wait(Duration),
    /// Spawn a task that lasts for the given time and ignores that its gate closes.
    Task(Duration),
    /// Note the payload in the log and drop the payload.
    Carry(Payload),
    Panic,
    Fail,
    /// Drop the reply without an answer.
    Forget(Reply<u32>),
}

/// A payload that counts its live instances.
pub(super) struct Payload(Arc<AtomicU32>);

impl Payload {
    pub(super) fn new(live: &Arc<AtomicU32>) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Self(live.clone())
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An error with a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) Option<std::fmt::Error>);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken")
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_ref().map(|e| e as _)
    }
}

/// The test actor. Its fields are shared by all incarnations, for the tests to read.
#[derive(Clone, Default)]
pub(super) struct Player {
    /// Number of starts that fail from now on.
    pub(super) bad_starts: Arc<AtomicU32>,
    /// The time of each attempt to start.
    pub(super) starts: Arc<Mutex<Vec<clock::Instant>>>,
    /// Each noted number, with the incarnation that noted the number.
    pub(super) notes: Arc<Mutex<Vec<(u32, u64)>>>,
    /// Number of calls of `stop`.
    pub(super) stops: Arc<AtomicU32>,
    /// Number of live values that belong to an incarnation: its state and its tasks.
    pub(super) live: Arc<AtomicU32>,
    /// Number of starts during which values of another incarnation were still alive.
    pub(super) overlaps: Arc<AtomicU32>,
}

impl Player {
    pub(super) fn overlaps(&self) -> u32 {
        self.overlaps.load(Ordering::Relaxed)
    }

    pub(super) fn live(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }
}

impl Actor for Player {
    type Message = Do;
    type State = Payload;

    async fn start(&self, ctx: &Ctx<Do>) -> Result<Payload, Failure> {
        if self.live.load(Ordering::Relaxed) > 0 {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        self.starts.lock().push(clock::now());
        let left = self.bad_starts.load(Ordering::Relaxed);
        if left > 0 {
            self.bad_starts.store(left - 1, Ordering::Relaxed);
            return Err(format!("bad start of {}", ctx.incarnation()).into());
        }
        Ok(Payload::new(&self.live))
    }

    async fn handle(&self, _: &mut Payload, message: Do, ctx: &Ctx<Do>) -> Result<(), Failure> {
        match message {
            Do::Who(reply) => reply.send(ctx.incarnation()),
            Do::Note(n) => self.notes.lock().push((ctx.incarnation(), n)),
            Do::Work(long) => clock::sleep(long).await,
            Do::Labour(long) => {
                let end = clock::after(long);
                while !end.passed() {
                    clock::sleep(S).await;
                    ctx.heartbeat();
                }
            }
            Do::Wait(long) => ctx.protected(clock::sleep(long)).await,
            Do::Task(long) => {
                let payload = Payload::new(&self.live);
                ctx.spawn("deaf", async move {
                    clock::sleep(long).await;
                    drop(payload);
                })?;
            }
            Do::Carry(payload) => drop(payload),
            Do::Panic => panic!("told to"),
            Do::Fail => return Err(Broken(Some(std::fmt::Error)).into()),
            Do::Forget(reply) => drop(reply),
        }
        Ok(())
    }

    async fn stop(&self, _: Payload, _: &Ctx<Do>) -> Result<(), Failure> {
        self.stops.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn observe(&self, _: &Payload) -> Value {
        json!({"notes": self.notes.lock().len()})
    }
}

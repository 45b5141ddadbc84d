//! The supervisor: receives the termination event of each incarnation and carries out what the restart policy decides.
//!
//! Safety rule: two incarnations of one actor never run at the same time. The next incarnation is launched only after the termination event of the
//! previous one, after its state and futures are dropped, and after its gated tasks and its children have ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oarlock_seeded_bug::seeded_bug;
use ractor::{ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::clock::{self, Instant};
use crate::policy::{self, Exit, Verdict};
use crate::run::Run;
use crate::slot::{Life, Slot};
use crate::stop::stop_all;
use crate::system::{Fatal, System, WeakSystem};
use crate::{rng, trace};

/// How long the gated tasks of a terminated incarnation may take to finish.
const TASK_GRACE: Duration = Duration::from_secs(5);

/// The ractor actor that every incarnation is linked to. Each system has one.
pub(crate) struct Supervisor;

impl ractor::Actor for Supervisor {
    type Msg = ();
    type State = WeakSystem;
    type Arguments = WeakSystem;

    async fn pre_start(&self, _: ActorRef<()>, system: WeakSystem) -> Result<WeakSystem, ActorProcessingErr> {
        Ok(system)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        system: &mut WeakSystem,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, reported) = match &event {
            SupervisionEvent::ActorTerminated(cell, _, reason) => (
                cell,
                match reason.as_deref() {
                    Some("killed") => Exit::Killed,
                    Some("actor_task_cancelled") => Exit::Failed("task was cancelled or panicked in a drop".to_owned()),
                    _ => Exit::Clean,
                },
            ),
            SupervisionEvent::ActorFailed(cell, error) => (cell, Exit::Failed(error.to_string())),
            _ => return Ok(()),
        };
        let Some(system) = system.upgrade() else { return Ok(()) };
        if let Some((slot, run)) = system.delist(cell.get_id()) {
            let exit = run.take_exit().unwrap_or(reported);
            on_terminated(system, slot, run, exit);
        }
        Ok(())
    }
}

/// Handles the termination event of `run`: disconnects the actor's handles and starts the clean-up task.
fn on_terminated(system: System, slot: Arc<Slot>, run: Arc<Run>, exit: Exit) {
    trace::record("exit", &slot.name, u64::from(run.number));
    trace::record(exit.name(), &slot.name, u64::from(run.number));
    if slot.current().is_some_and(|(current, _)| current.number == run.number) {
        if let Some(launcher) = slot.launcher() {
            launcher.disconnect();
        }
        slot.clear_current(run.number);
    }
    run.token.cancel();
    if let Some(error) = exit.error() {
        tracing::warn!(actor = %slot.name, incarnation = run.number, error, "incarnation failed");
        *slot.last_error.lock() = Some(error);
    }
    slot.set_life(Life::BackingOff);
    let tasks = system.tasks().clone();
    let name = slot.name.clone();
    if tasks.spawn_detached("clean_up", clean_up(system, slot, run, exit)).is_err() {
        tracing::warn!(actor = %name, "incarnation ended after the system had closed");
    }
}

/// Waits until the terminated incarnation's state, tasks and children are dropped, then carries out the policy's verdict.
async fn clean_up(system: System, slot: Arc<Slot>, run: Arc<Run>, exit: Exit) {
    run.dropped.cancelled().await;
    if let Some(gate) = run.gate.get()
        && let Err(late) = gate.close(TASK_GRACE).await
    {
        tracing::warn!(actor = %slot.name, error = %late, "tasks outlived their incarnation");
    }
    if slot.has_children.swap(false, Ordering::Relaxed) {
        let children = system.children(&slot);
        let late = stop_all(&children, clock::after(slot.kind.phase.grace())).await;
        for name in late {
            tracing::warn!(actor = %slot.name, child = name, "child outlived its parent");
        }
    }
    if seeded_bug!("restart_before_termination") && matches!(exit, Exit::Stuck(_)) {
        return;
    }
    let asked = slot.stop.is_cancelled();
    let verdict = policy::decide(slot.kind, &mut slot.history.lock(), &exit, asked, clock::now());
    match verdict {
        Verdict::End => finish(&system, &slot, exit.error()),
        Verdict::Restart(pause) => restart(system, slot, rng::jitter(pause, 20)).await,
        Verdict::Escalate => {
            let error = exit.error().unwrap_or_default();
            finish(&system, &slot, Some(error.clone()));
            escalate(&system, &slot, error);
        }
        Verdict::StopProcess => {
            let error = exit.error().unwrap_or_default();
            finish(&system, &slot, Some(error.clone()));
            system.fail(Fatal { actor: slot.name.to_string(), error });
        }
    }
}

/// Starts the next incarnation after the back-off, unless the actor is asked to stop during the back-off.
async fn restart(system: System, slot: Arc<Slot>, pause: Duration) {
    tokio::select! {
        biased;
        () = slot.stop.cancelled() => return finish(&system, &slot, None),
        () = clock::sleep(pause) => {}
    }
    let Some(launcher) = slot.launcher() else { return };
    if let Err(error) = launcher.launch().await {
        finish(&system, &slot, Some(error.to_string()));
        escalate(&system, &slot, error.to_string());
    }
}

/// Fails the parent with this error; without a parent, stops the process.
fn escalate(system: &System, slot: &Slot, error: String) {
    let fatal = Fatal { actor: slot.name.to_string(), error };
    let Some(parent) = &slot.parent else { return system.fail(fatal) };
    // a parent whose incarnation has terminated has stopped this child already
    if let Some(parent_slot) = parent.slot.upgrade()
        && let Some((run, cell)) = parent_slot.current()
        && run.number == parent.run
    {
        run.exit(Exit::Child(fatal.to_string()));
        cell.kill();
    }
}

/// Ends the actor for good. The name is released before the state becomes `Ended`, so a caller that waited for the end can spawn the same actor
/// again.
pub(crate) fn finish(system: &System, slot: &Arc<Slot>, error: Option<String>) {
    trace::record("end", &slot.name, u64::from(slot.incarnations.load(Ordering::Relaxed)));
    if let Some(launcher) = slot.launcher.lock().take() {
        launcher.disconnect();
    }
    *slot.end_error.lock() = error;
    slot.mailbox.permits.close();
    slot.stop.cancel();
    system.forget(slot);
    slot.set_life(Life::Ended);
}

/// Kills the incarnations that have made no progress within their kind's limit. Their successors start after the termination event, as always.
pub(crate) fn sweep(slots: &[Arc<Slot>], now: Instant) {
    for slot in slots {
        let quiet = slot.progress.quiet(now);
        if quiet < slot.kind.progress {
            continue;
        }
        let Some((run, cell)) = slot.current() else { continue };
        if run.killed.swap(true, Ordering::Relaxed) {
            continue;
        }
        tracing::warn!(actor = %slot.name, incarnation = run.number, ?quiet, "no progress; killed");
        trace::record("stuck", &slot.name, u64::from(run.number));
        run.exit(Exit::Stuck(quiet));
        cell.kill();
        if seeded_bug!("restart_before_termination") {
            seeded_restart(slot);
        }
    }
}

/// Starts the successor without waiting for the previous incarnation's termination (a seeded bug).
#[expect(clippy::disallowed_methods, reason = "this is a bug on purpose")]
fn seeded_restart(slot: &Arc<Slot>) {
    let Some(launcher) = slot.launcher() else { return };
    tokio::spawn(async move { launcher.launch().await });
}

//! Stops actors for good: asks them as their kind says, waits, and kills the late ones.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::kind::OnShutdown;
use crate::policy::Exit;
use crate::slot::{Life, Slot};

/// How long a killed incarnation may take to terminate before it is reported as late.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(1);

/// Asks an actor to stop for good, in the way its kind's `on_shutdown` says. Returns at once; may be called again.
pub(crate) fn ask_to_stop(slot: &Slot) {
    slot.stop.cancel();
    slot.set_life(Life::Stopping);
    if let Some(launcher) = slot.launcher() {
        // queued messages are treated as `on_shutdown` says; new messages are refused from here on
        launcher.disconnect();
    }
    let Some((run, cell)) = slot.current() else { return };
    run.token.cancel();
    match slot.kind.on_shutdown {
        OnShutdown::Drain => {
            // an error means that the incarnation has terminated already
            let _ = cell.drain();
        }
        OnShutdown::Finish => cell.stop(None),
        OnShutdown::Kill => {
            run.exit(Exit::Killed);
            cell.kill();
        }
    }
}

/// Kills the current incarnation at its next await, whatever its kind's `on_shutdown` says.
fn kill(slot: &Slot) {
    if let Some((run, cell)) = slot.current() {
        run.exit(Exit::Killed);
        cell.kill();
    }
}

/// Asks all actors to stop and waits until `deadline`, then kills the late ones and returns their names.
pub(crate) async fn stop_all(slots: &[Arc<Slot>], deadline: Instant) -> Vec<String> {
    slots.iter().for_each(|slot| ask_to_stop(slot));
    let mut late = Vec::new();
    for slot in slots {
        if clock::timeout_at(deadline, slot.until(|life| life == Life::Ended)).await.is_err() {
            late.push(slot);
        }
    }
    late.iter().for_each(|slot| kill(slot));
    let deadline = clock::after(KILL_GRACE);
    let mut names = Vec::new();
    for slot in late {
        let ended = clock::timeout_at(deadline, slot.until(|life| life == Life::Ended)).await.is_ok();
        names.push(if ended { slot.name.to_string() } else { format!("{} (not terminated)", slot.name) });
    }
    names
}

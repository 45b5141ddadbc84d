//! A thread that looks for code that never yields.
//!
//! An actor that hangs at an await is killed by the supervisor. One that spins, or blocks its thread, never reaches an
//! await: it cannot be killed, and it starves whatever shares its thread. Nothing in the process can repair that. The watchdog names the actor or task in the
//! log and in a metric. It aborts the process only where the actor's row says so ([`OnSpin::Abort`]); never for a gated task, because requests are gated
//! tasks and one request could end the server, and never in a process that serves an API.

use std::io::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::kind::OnSpin;
use crate::system::WeakSystem;

/// A poll is stuck when this many looks in a row see it.
const LOOKS: u32 = 4;

/// Called for a poll that is stuck, with the name of the actor, or of the gate and task, and with what may be done.
pub type OnStuck = Arc<dyn Fn(&str, OnSpin) + Send + Sync>;

/// How the watchdog of a system is set up.
#[derive(Clone)]
pub struct Watchdog {
    /// How long one poll may last. Machine time: even in tests this is about a real thread.
    pub limit: Duration,
    /// Called after `limit`, and again after each further `limit`. The default logs the name, and aborts the process where it may.
    pub on_stuck: OnStuck,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self { limit: Duration::from_secs(10), on_stuck: Arc::new(judge) }
    }
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchdog").field("limit", &self.limit).finish_non_exhaustive()
    }
}

fn judge(name: &str, on_spin: OnSpin) {
    match on_spin {
        OnSpin::Report => tracing::error!(actor = name, "never yields"),
        OnSpin::Abort => {
            tracing::error!(actor = name, "never yields; aborting the process");
            // the log may be asynchronous, and this is the last thing the process says; if that fails too, it still has to end
            let _ = writeln!(std::io::stderr(), "{name} never yields; aborting the process");
            std::process::abort();
        }
    }
}

/// What one look found: an actor or a task that is still in the same poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    /// `kind/key` of the actor, or the gate's name and the task's.
    pub(crate) name: String,
    /// How many looks in a row have seen the poll.
    pub(crate) looks: u32,
    /// What may be done about it.
    pub(crate) on_spin: OnSpin,
    /// True for an actor, false for a gated task.
    pub(crate) actor: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    actor: String,
}

/// Polls that lasted longer than the limit, by kind of actor or by gate; without keys, of which there may be many.
static SPINS: LazyLock<Family<Labels, Counter>> = LazyLock::new(|| {
    let spins: Family<Labels, Counter> = Family::default();
    oarlock_telemetry::registry().declare(|registry| {
        let help = "Polls of actors and tasks that lasted longer than the watchdog allows";
        registry.register("oarlock_watchdog_spins", help, spins.clone());
    });
    spins
});

/// Whether a stuck poll is acted on after this many looks: at the limit, and at each further limit.
fn is_due(looks: u32) -> bool {
    looks > 0 && looks.is_multiple_of(LOOKS)
}

/// Starts the thread; it ends with the system. Counting looks instead of reading a clock makes a suspended process harmless.
pub(crate) fn start(system: WeakSystem, watchdog: Watchdog) -> std::io::Result<()> {
    let pause = (watchdog.limit / LOOKS).max(Duration::from_millis(1));
    let watch = move || {
        while let Some(system) = system.upgrade() {
            for spin in system.look(LOOKS / 2).into_iter().filter(|spin| is_due(spin.looks)) {
                if spin.looks == LOOKS {
                    let actor = spin.name.split('/').next().unwrap_or_default().to_owned();
                    SPINS.get_or_create(&Labels { actor }).inc();
                }
                (watchdog.on_stuck)(&spin.name, spin.on_spin);
            }
            drop(system);
            std::thread::park_timeout(pause);
        }
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch).map(drop)
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn a_spin_is_told_at_the_limit_and_once_in_each_further_limit() {
        let told: Vec<u32> = (0..13).filter(|looks| is_due(*looks)).collect();
        assert_eq!(told, [4, 8, 12]);
    }
}

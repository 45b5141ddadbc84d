//! The watchdog: a thread that finds actors and tasks that never yield.
//!
//! The supervisor kills an actor that hangs at an await. An actor that spins or blocks its thread never reaches an await: it cannot be killed, and it
//! starves the other tasks of that thread. Nothing in the process can repair this. The watchdog names the actor or task in the log and in a metric.
//! It aborts the process only where the actor's kind says so ([`OnSpin::Abort`]); never for a gated task, because requests are gated tasks and one
//! request could end the server, and never in a process that serves an API.

use std::io::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::kind::OnSpin;
use crate::spin::Spin;

/// How many checks in a row must see the same poll before it counts as stuck.
const CHECKS_UNTIL_STUCK: u32 = 4;

/// The callback for a stuck poll, with the name of the actor, or of the gate and task, and the permitted reaction.
pub type OnStuck = Arc<dyn Fn(&str, OnSpin) + Send + Sync>;

/// The configuration of a system's watchdog.
#[derive(Clone)]
pub struct Watchdog {
    /// How long one poll may last. Measured in real time even in tests, because it concerns a real thread.
    pub limit: Duration,
    /// Called after `limit`, and again after each further `limit`. The default logs the name, and aborts the process where that is permitted.
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
            // the log may be asynchronous, and the process ends here; an error of stderr must not prevent the abort
            let _ = writeln!(std::io::stderr(), "{name} never yields; aborting the process");
            std::process::abort();
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    actor: String,
}

/// Polls that lasted longer than the limit, by kind of actor or by gate; without keys, to bound the number of series.
static SPINS: LazyLock<Family<Labels, Counter>> = LazyLock::new(|| {
    let spins: Family<Labels, Counter> = Family::default();
    oarlock_telemetry::registry().declare(|registry| {
        let help = "Polls of actors and tasks that lasted longer than the watchdog allows";
        registry.register("oarlock_watchdog_spins", help, spins.clone());
    });
    spins
});

/// Whether a poll seen by this many checks is reported now: at the limit, and at each further limit.
fn is_due(looks: u32) -> bool {
    looks > 0 && looks.is_multiple_of(CHECKS_UNTIL_STUCK)
}

/// Starts the watchdog's thread. Each check calls `look` with the number of earlier checks from which on a spin counts, and the thread ends when `look`
/// returns `None`. Checks are counted and no clock is read, so a suspended process reports no spin.
pub(crate) fn start(
    watchdog: Watchdog,
    look: impl Fn(u32) -> Option<Vec<Spin>> + Send + 'static,
) -> std::io::Result<()> {
    let pause = (watchdog.limit / CHECKS_UNTIL_STUCK).max(Duration::from_millis(1));
    let watch = move || {
        while let Some(spins) = look(CHECKS_UNTIL_STUCK / 2) {
            for spin in spins.into_iter().filter(|spin| is_due(spin.looks)) {
                if spin.looks == CHECKS_UNTIL_STUCK {
                    let actor = spin.name.split('/').next().unwrap_or_default().to_owned();
                    SPINS.get_or_create(&Labels { actor }).inc();
                }
                (watchdog.on_stuck)(&spin.name, spin.on_spin);
            }
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

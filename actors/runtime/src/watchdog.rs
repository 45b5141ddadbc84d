//! A thread that looks for code that never yields.
//!
//! An actor that hangs at an await is killed by the supervisor. One that spins, or blocks its thread, never reaches an
//! await: it cannot be killed, and it starves whatever shares its thread. Nobody can repair that from inside, so the
//! watchdog names the culprit and ends the process; whoever runs the process starts it again.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::system::WeakSystem;

/// A poll is stuck when this many looks in a row see it.
const LOOKS: u32 = 4;

/// What is done about whoever never yields; it gets the name of the actor, or of the gate and task.
pub type OnStuck = Arc<dyn Fn(&str) + Send + Sync>;

/// How the watchdog of a system is set up.
#[derive(Clone)]
pub struct Watchdog {
    /// How long one poll may last. Machine time: even in tests this is about a real thread.
    pub limit: Duration,
    /// What is done then; called at every further look too. The default names the culprit and aborts the process.
    pub on_stuck: OnStuck,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self { limit: Duration::from_secs(10), on_stuck: Arc::new(abort) }
    }
}

impl std::fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watchdog").field("limit", &self.limit).finish_non_exhaustive()
    }
}

fn abort(name: &str) {
    tracing::error!(actor = name, "never yields; aborting the process");
    // the log may be asynchronous, and this is the last thing the process says; if that fails too, it still has to end
    let _ = writeln!(std::io::stderr(), "{name} never yields; aborting the process");
    std::process::abort();
}

/// Starts the thread; it ends with the system. Counting looks instead of reading a clock makes a suspended process harmless.
pub(crate) fn start(system: WeakSystem, watchdog: Watchdog) -> std::io::Result<()> {
    let pause = (watchdog.limit / LOOKS).max(Duration::from_millis(1));
    let watch = move || {
        while let Some(system) = system.upgrade() {
            for (name, _) in system.look(LOOKS / 2).into_iter().filter(|(_, looks)| *looks >= LOOKS) {
                (watchdog.on_stuck)(&name);
            }
            drop(system);
            std::thread::park_timeout(pause);
        }
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch).map(drop)
}

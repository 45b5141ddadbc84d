//! Starts a system: its supervisor, the check for progress and the watchdog.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::error::Error;
use crate::supervisor::{self, Supervisor};
use crate::system::{Options, System, WeakSystem};
use crate::{clock, trace, watchdog};

impl System {
    /// Starts an empty system on the current tokio runtime.
    ///
    /// # Errors
    /// [`Error::Spawn`] when ractor refuses to spawn the supervisor.
    pub fn start(options: Options) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(start(options))
    }
}

async fn start(options: Options) -> Result<System, Error> {
    let system = System::new(options);
    let weak = system.downgrade();
    let refused =
        |error: &dyn std::fmt::Display| Error::Spawn { name: "supervisor".to_owned(), reason: error.to_string() };
    let (supervisor, _) =
        <Supervisor as ractor::Actor>::spawn(None, Supervisor, weak.clone()).await.map_err(|error| refused(&error))?;
    system.set_supervisor(supervisor.get_cell());
    let tick = system.options().tick;
    system.tasks().spawn_detached("sweep", sweep(weak.clone(), tick)).map_err(|error| refused(&error))?;
    if let Some(watchdog) = system.options().watchdog.clone().filter(|_| !trace::active()) {
        let look = move |checks| weak.upgrade().map(|system| system.look(checks));
        watchdog::start(watchdog, look).map_err(|error| refused(&error))?;
    }
    Ok(system)
}

/// Checks the progress of all actors once per tick, until the system closes.
async fn sweep(system: WeakSystem, tick: Duration) {
    let Some(closing) = system.upgrade().map(|system| system.tasks().token()) else { return };
    let mut ticks = clock::interval(tick);
    loop {
        let now = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            now = ticks.tick() => now,
        };
        let Some(system) = system.upgrade() else { return };
        supervisor::sweep(&system.slots(), now);
    }
}

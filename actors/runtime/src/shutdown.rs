//! The shutdown of a process, phase by phase.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use oarlock_seeded_bug::seeded_bug;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::clock;
use crate::kind::Phase;
use crate::service_manager;
use crate::stop::{KILL_GRACE, stop_all};
use crate::system::{Fatal, System};

/// The result of a shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The phases in their order.
    pub phases: Vec<PhaseReport>,
}

impl Report {
    /// Returns how long all phases took.
    pub fn took(&self) -> Duration {
        self.phases.iter().map(|phase| phase.took).sum()
    }

    /// Returns the names of all actors and gated tasks that were late.
    pub fn late(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().flat_map(|phase| phase.late.iter().map(String::as_str))
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, phase) in self.phases.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{} {} ms", phase.phase.name(), phase.took.as_millis())?;
            if !phase.late.is_empty() {
                write!(f, " (late: {})", phase.late.join(" "))?;
            }
        }
        Ok(())
    }
}

/// The result of one phase of a shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// How many actors and gates were stopped.
    pub stopped: usize,
    /// How long stopping took.
    pub took: Duration,
    /// The actors and gated tasks that did not stop within the grace and were killed or aborted.
    pub late: Vec<String>,
}

/// How long each phase may take when a failure stops the process. Short, because work that depends on the failed actor cannot finish, and the process
/// should be restarted soon.
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// How long each phase may take.
#[derive(Clone, Copy, Debug)]
pub struct Graces([(Phase, Duration); Phase::ALL.len()]);

impl Default for Graces {
    fn default() -> Self {
        Self(Phase::ALL.map(|phase| (phase, phase.grace())))
    }
}

impl Graces {
    /// Returns the same grace for every phase.
    #[must_use]
    pub fn all(grace: Duration) -> Self {
        Self(Phase::ALL.map(|phase| (phase, grace)))
    }

    /// Replaces the grace of one phase.
    #[must_use]
    pub fn with(self, phase: Phase, grace: Duration) -> Self {
        Self(self.0.map(|row| if row.0 == phase { (phase, grace) } else { row }))
    }

    /// Returns the longest time that a shutdown takes: what is late in a phase is killed when the phase's grace is over.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.0.iter().map(|(_, grace)| *grace + KILL_GRACE).sum::<Duration>() + KILL_GRACE
    }

    fn at_most(self, grace: Duration) -> Self {
        Self(self.0.map(|(phase, own)| (phase, own.min(grace))))
    }
}

/// Stops the system. For each phase in order: refuses new actors, asks the phase's actors and gates to stop, waits for the grace, kills and names the
/// late ones. Always completes.
pub async fn shutdown(system: &System, graces: Graces) -> Report {
    let mut report = Report::default();
    for (phase, grace) in graces.0 {
        let began = clock::now();
        let (slots, gates) = system.begin_phase(phase);
        let closing = join_all(gates.iter().map(|gate| gate.close(grace)));
        let (mut late, closed) = futures::join!(stop_all(&slots, began + grace), closing);
        for gate in closed.into_iter().filter_map(Result::err) {
            late.extend(gate.holders.into_iter().map(|holder| format!("{}/{holder}", gate.gate)));
        }
        let row = PhaseReport { phase, stopped: slots.len() + gates.len(), took: began.elapsed(), late };
        tracing::info!(phase = phase.name(), stopped = row.stopped, took = ?row.took, late = ?row.late, "phase stopped");
        report.phases.push(row);
    }
    if let Err(late) = system.tasks().close(KILL_GRACE).await {
        tracing::warn!(error = %late, "runtime tasks aborted");
    }
    if let Ok(supervisor) = system.supervisor() {
        supervisor.stop(None);
    }
    report
}

/// How a process ended, see [`run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal asked the process to stop, and the shutdown completed.
    Asked(Report),
    /// An actor's failure stopped the process.
    Failed(Fatal, Report),
    /// A second signal came before the shutdown of the first one was complete: exit at once.
    Forced,
}

impl End {
    /// Returns the process's exit code: 0 when asked, 1 when failed, 130 when forced.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Asked(_) => 0,
            Self::Failed(..) => 1,
            Self::Forced => 130,
        }
    }
}

/// Runs until a signal or a fatal failure, then shuts down; after a failure each phase has 2 s at most. A second signal returns [`End::Forced`] at
/// once. The caller exits the process with [`End::exit_code`] in each case, without waiting for futures that may still run.
///
/// The process serves when it calls this function, so the service manager is told at once that the process is ready, and later that it is stopping.
pub async fn run(system: &System, signals: mpsc::Receiver<&'static str>, graces: Graces) -> End {
    run_once_ready(system, signals, graces, Box::pin(std::future::ready(()))).await
}

/// As [`run`], for a process that is ready only when `ready` completes. A shutdown before that does not wait for `ready`.
pub async fn run_once_ready(
    system: &System,
    mut signals: mpsc::Receiver<&'static str>,
    graces: Graces,
    ready: BoxFuture<'_, ()>,
) -> End {
    let announced = async {
        ready.await;
        service_manager::ready();
        std::future::pending().await
    };
    let fatal = tokio::select! {
        biased;
        fatal = system.failed() => Some(fatal),
        signal = next(&mut signals) => {
            tracing::info!(signal, "shutting down; a second signal exits at once");
            None
        }
        never = announced => never,
    };
    let graces = if fatal.is_some() { graces.at_most(GRACE_AFTER_FAILURE) } else { graces };
    service_manager::stopping(graces.longest());
    let report = tokio::select! {
        biased;
        signal = next(&mut signals) => {
            tracing::warn!(signal, "second signal; exiting at once");
            return End::Forced;
        }
        report = shutdown(system, graces) => report,
    };
    match fatal.or_else(|| system.fatal()) {
        Some(fatal) => End::Failed(fatal, report),
        None => End::Asked(report),
    }
}

/// Receives the next signal; waits for ever once all senders are dropped.
async fn next(signals: &mut mpsc::Receiver<&'static str>) -> &'static str {
    match signals.recv().await {
        Some(signal) => signal,
        None => std::future::pending().await,
    }
}

/// Subscribes to the signals that ask this process to stop: SIGINT and SIGTERM.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn signals(system: &System) -> std::io::Result<mpsc::Receiver<&'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    if seeded_bug!("ready_before_serving") {
        service_manager::ready();
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (sender, receiver) = mpsc::channel(2);
    let closing = system.tasks().token();
    let forward = async move {
        loop {
            let name = tokio::select! {
                biased;
                () = closing.cancelled() => return,
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            };
            if sender.send(name).await.is_err() {
                return;
            }
        }
    };
    system.tasks().spawn_detached("signals", forward).map_err(std::io::Error::other)?;
    Ok(receiver)
}

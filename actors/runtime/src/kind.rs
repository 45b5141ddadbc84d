//! One declared row per kind of long-lived thing: what happens when it fails, and when the process stops.
//!
//! Domain crates declare rows as statics, `pub static COMMITTER: ActorKind = ActorKind { name: "store.committer",
//! phase: Phase::Storage, ..ActorKind::DEFAULT };`, and list them in a `KINDS` slice; [`check`] holds the rules every
//! list of rows must keep, and each executable tests the union of its lists.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The row of one kind of actor. Rows are statics: an actor's policy never changes while it lives.
#[derive(Debug)]
pub struct ActorKind {
    /// `<domain>.<actor>`, lower case, unique in the process: "store.committer". It names logs, metrics and addresses.
    pub name: &'static str,
    /// What follows when an incarnation panics, fails, fails to start or makes no progress.
    pub on_failure: OnFailure,
    /// What becomes of queued messages when the actor is asked to stop.
    pub on_shutdown: OnShutdown,
    /// When in the shutdown of the process it is asked to stop.
    pub phase: Phase,
    /// How many messages may wait. At least 1.
    pub mailbox: usize,
    /// How long a start, a message, a stop or a loop may go without a heartbeat outside a protected zone before the
    /// incarnation counts as stuck and is killed.
    pub progress: Duration,
    /// What the watchdog does when the actor never yields.
    pub on_spin: OnSpin,
}

impl ActorKind {
    /// What most actors want: restart with back-off, at most 5 times in a minute, then escalate; drain on stop; a
    /// mailbox of 256; 30 s between heartbeats; a spin is only reported. It lacks a name, so every row must give its own.
    pub const DEFAULT: Self = Self {
        name: "",
        on_failure: OnFailure::Restart {
            backoff: Backoff::DEFAULT,
            max: 5,
            within: Duration::from_secs(60),
            then: Exhausted::Escalate,
        },
        on_shutdown: OnShutdown::Drain,
        phase: Phase::Crew,
        mailbox: 256,
        progress: Duration::from_secs(30),
        on_spin: OnSpin::Report,
    };
}

/// What the watchdog does about an actor that never yields. The actor cannot be killed; only the whole process can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSpin {
    /// The log and a metric name the actor, and the process goes on.
    Report,
    /// The process is aborted, so that whoever supervises it starts it again. Only for actors of processes whose work others can take over, and without
    /// effect in processes that serve an API ([`System::serves`](crate::System::serves)).
    Abort,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Start a new incarnation after a back-off; after more than `max` failures `within` a window, do what `then` says.
    Restart {
        /// The pause before the next incarnation.
        backoff: Backoff,
        /// Failures inside the window that are still answered by a restart.
        max: u32,
        /// Length of the sliding window.
        within: Duration,
        /// What follows when the window is full.
        then: Exhausted,
    },
    /// Fail the parent with this error; an actor without a parent stops the process.
    Escalate,
    /// Stop the process with this error, phase by phase.
    StopProcess,
}

/// What follows a failure that no restart answers any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// As [`OnFailure::Escalate`].
    Escalate,
    /// As [`OnFailure::StopProcess`].
    StopProcess,
    /// The actor ends; its handles answer `Stopped` from then on, its status keeps the error.
    GiveUp,
}

/// An exponential pause: `first`, twice that, and so on up to `max`, each shortened by up to 20 % so that actors that
/// failed together do not return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure in the window.
    pub first: Duration,
    /// No pause is longer.
    pub max: Duration,
}

impl Backoff {
    /// 100 ms doubling to 10 s.
    pub const DEFAULT: Self = Self { first: Duration::from_millis(100), max: Duration::from_secs(10) };

    /// The pause after `failures` failures in the window (1 is the first), before jitter.
    pub fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }
}

/// What becomes of the messages that wait when the actor is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShutdown {
    /// Handle everything that waits, refuse what comes, then stop.
    Drain,
    /// Finish the message in hand, then stop; asks that wait get `Stopped`.
    Finish,
    /// Cancel the message in hand at its next await; `stop` does not run.
    Kill,
}

/// The order in which a process stops: each phase ends, or its grace runs out, before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Those that tell others of the end, while everything still works.
    Announce,
    /// Those that act on their own: controllers, schedulers, kubelets. They still can give back leases through the API.
    Crew,
    /// Informers and other readers the crew depends on.
    Informers,
    /// Listeners, connections and requests.
    Ingress,
    /// The request pipeline's own actors: admission, authentication, flow control, audit.
    Pipeline,
    /// Committer, View, compactor: everything acknowledged becomes durable before this phase ends.
    Storage,
    /// Exporters of traces, metrics and logs: last, so that they can tell of all the others.
    Telemetry,
}

impl Phase {
    /// All phases in the order of shutdown.
    pub const ALL: [Self; 7] =
        [Self::Announce, Self::Crew, Self::Informers, Self::Ingress, Self::Pipeline, Self::Storage, Self::Telemetry];

    /// How long a phase may take unless the process was configured otherwise.
    pub const fn grace(self) -> Duration {
        match self {
            Self::Announce | Self::Crew | Self::Ingress | Self::Storage => Duration::from_secs(10),
            Self::Informers | Self::Pipeline | Self::Telemetry => Duration::from_secs(3),
        }
    }

    /// The phase's name in logs and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Announce => "announce",
            Self::Crew => "crew",
            Self::Informers => "informers",
            Self::Ingress => "ingress",
            Self::Pipeline => "pipeline",
            Self::Storage => "storage",
            Self::Telemetry => "telemetry",
        }
    }
}

/// A row that breaks a rule, see [`check`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is not `<domain>.<actor>` in lower case letters, digits, '-' and '.'.
    #[error("actor kind {0:?} is not named <domain>.<actor>")]
    Name(&'static str),
    /// Two rows share a name.
    #[error("actor kind {0:?} is declared twice")]
    Twice(&'static str),
    /// The mailbox holds nothing, or more than a semaphore can count.
    #[error("actor kind {name:?} has a mailbox of {mailbox}")]
    Mailbox {
        /// The row's name.
        name: &'static str,
        /// The bound it asks for.
        mailbox: usize,
    },
    /// A progress deadline of zero would kill every incarnation.
    #[error("actor kind {0:?} has no time to make progress")]
    Progress(&'static str),
}

/// Checks the rules of one row.
///
/// # Errors
/// The first rule the row breaks.
pub fn check_row(kind: &'static ActorKind) -> Result<(), Error> {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    if !kind.name.contains('.') || !kind.name.split('.').all(word) {
        return Err(Error::Name(kind.name));
    }
    if kind.mailbox == 0 || kind.mailbox > 1 << 24 {
        return Err(Error::Mailbox { name: kind.name, mailbox: kind.mailbox });
    }
    if kind.progress.is_zero() {
        return Err(Error::Progress(kind.name));
    }
    Ok(())
}

/// Checks the rules of all rows of a process: each row's own, and that no name is used twice.
///
/// # Errors
/// The first rule a row breaks.
pub fn check(kinds: impl IntoIterator<Item = &'static ActorKind>) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for kind in kinds {
        check_row(kind)?;
        if !names.insert(kind.name) {
            return Err(Error::Twice(kind.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    static A: ActorKind = ActorKind { name: "test.a", ..ActorKind::DEFAULT };
    static ALSO_A: ActorKind = ActorKind { name: "test.a", ..ActorKind::DEFAULT };
    static B: ActorKind = ActorKind { name: "test.b", ..ActorKind::DEFAULT };
    static UNNAMED: ActorKind = ActorKind::DEFAULT;
    static SHOUTS: ActorKind = ActorKind { name: "test.B", ..ActorKind::DEFAULT };
    static NO_MAIL: ActorKind = ActorKind { name: "test.c", mailbox: 0, ..ActorKind::DEFAULT };
    static NO_TIME: ActorKind = ActorKind { name: "test.d", progress: Duration::ZERO, ..ActorKind::DEFAULT };

    #[test]
    fn names_are_unique_and_well_formed() {
        assert_eq!(check([&A, &B]), Ok(()));
        assert_eq!(check([&A, &B, &ALSO_A]), Err(Error::Twice("test.a")));
        assert_eq!(check([&UNNAMED]), Err(Error::Name("")));
        assert_eq!(check([&SHOUTS]), Err(Error::Name("test.B")));
    }

    #[test]
    fn rows_that_could_never_run_are_refused() {
        assert_eq!(check([&NO_MAIL]), Err(Error::Mailbox { name: "test.c", mailbox: 0 }));
        assert_eq!(check([&NO_TIME]), Err(Error::Progress("test.d")));
    }

    #[test]
    fn backoff_doubles_up_to_its_maximum() {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        let pauses: Vec<u128> = (1..=6).map(|n| backoff.pause(n).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.pause(u32::MAX), Duration::from_secs(1));
    }

    #[test]
    fn phases_stop_in_declared_order() {
        assert!(Phase::ALL.is_sorted());
    }
}

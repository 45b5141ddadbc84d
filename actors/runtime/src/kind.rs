//! The declared policy of each kind of actor: what follows a failure, and how the actor stops at shutdown.
//!
//! Domain crates declare kinds as statics, `pub static COMMITTER: ActorKind = ActorKind { name: "store.committer", phase: Phase::Storage,
//! ..ActorKind::DEFAULT };`, and list them in a `KINDS` slice. [`check`] holds the rules that every list of kinds must keep; each executable tests
//! the union of its lists.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The policy of one kind of actor. Kinds are statics: an actor's policy never changes while the actor lives.
#[derive(Debug)]
pub struct ActorKind {
    /// `<domain>.<actor>`, lower case, unique in the process: "store.committer". Used in logs, metrics and addresses.
    pub name: &'static str,
    /// What follows when an incarnation panics, fails, fails to start or makes no progress.
    pub on_failure: OnFailure,
    /// What happens to queued messages when the actor is asked to stop.
    pub on_shutdown: OnShutdown,
    /// The phase of the process's shutdown in which the actor is asked to stop.
    pub phase: Phase,
    /// The bound of the mailbox, in messages. At least 1.
    pub mailbox: usize,
    /// How long a start, a message, a stop or a loop may run without a heartbeat, outside [`Ctx::protected`](crate::Ctx::protected), before the
    /// incarnation counts as stuck and is killed.
    pub progress: Duration,
    /// What the watchdog does when the actor never yields.
    pub on_spin: OnSpin,
}

impl ActorKind {
    /// The policy of most actors: restart with back-off, at most 5 times in a minute, then escalate; drain on stop; a mailbox of 256; 30 s between
    /// heartbeats; a spin is only reported. The name is empty and must be set.
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

/// What the watchdog does about an actor that never yields. Such an actor cannot be killed; only the whole process can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSpin {
    /// Names the actor in the log and in a metric; the process continues.
    Report,
    /// Aborts the process, so that its service manager restarts it. Only for processes whose work another process can take over, and without effect
    /// in processes that serve an API ([`System::serves`](crate::System::serves)).
    Abort,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Start a new incarnation after a back-off; after more than `max` failures `within` a window, do what `then` says.
    Restart {
        /// The pause before the next incarnation.
        backoff: Backoff,
        /// How many failures inside the window are answered by a restart.
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

/// What follows a failure after the restarts of the window are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Fails the parent, as [`OnFailure::Escalate`].
    Escalate,
    /// Stops the process, as [`OnFailure::StopProcess`].
    StopProcess,
    /// Ends the actor: its handles answer `Stopped` from then on, its status keeps the error.
    GiveUp,
}

/// An exponential back-off: `first`, doubled after each failure up to `max`, each shortened by up to 20 % so that actors that failed together do not
/// restart together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure in the window.
    pub first: Duration,
    /// The upper bound of the pause.
    pub max: Duration,
}

impl Backoff {
    /// 100 ms doubling to 10 s.
    pub const DEFAULT: Self = Self { first: Duration::from_millis(100), max: Duration::from_secs(10) };

    /// Returns the pause after `failures` failures in the window (1 is the first), before jitter.
    pub fn pause(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }
}

/// What happens to queued messages when the actor is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShutdown {
    /// Handle all queued messages, refuse new ones, then stop.
    Drain,
    /// Finish the current message, then stop; queued asks get `Stopped`.
    Finish,
    /// Cancel the current message at its next await; `stop` does not run.
    Kill,
}

/// The phases of a process's shutdown, in order. Each phase ends, or its grace runs out, before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Actors that announce the shutdown to other processes, while everything still works.
    Announce,
    /// Actors that work on their own: controllers, schedulers, kubelets. They can still release leases through the API.
    Crew,
    /// Informers and other readers that the crew depends on.
    Informers,
    /// Listeners, connections and requests.
    Ingress,
    /// The request pipeline's own actors: admission, authentication, flow control, audit.
    Pipeline,
    /// Committer, View, compactor: all acknowledged writes become durable before this phase ends.
    Storage,
    /// Exporters of traces, metrics and logs. Last, so that the other phases are exported too.
    Telemetry,
}

impl Phase {
    /// All phases in the order of shutdown.
    pub const ALL: [Self; 7] =
        [Self::Announce, Self::Crew, Self::Informers, Self::Ingress, Self::Pipeline, Self::Storage, Self::Telemetry];

    /// Returns how long a phase may take by default.
    pub const fn grace(self) -> Duration {
        match self {
            Self::Announce | Self::Crew | Self::Ingress | Self::Storage => Duration::from_secs(10),
            Self::Informers | Self::Pipeline | Self::Telemetry => Duration::from_secs(3),
        }
    }

    /// Returns the phase's name in logs and reports.
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

/// An [`ActorKind`] that breaks a rule, see [`check`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is not `<domain>.<actor>` in lower case letters, digits, '-' and '.'.
    #[error("actor kind {0:?} is not named <domain>.<actor>")]
    Name(&'static str),
    /// Two kinds share a name.
    #[error("actor kind {0:?} is declared twice")]
    Twice(&'static str),
    /// The mailbox bound is zero, or more than a semaphore can count.
    #[error("actor kind {name:?} has a mailbox of {mailbox}")]
    Mailbox {
        /// The kind's name.
        name: &'static str,
        /// The bound.
        mailbox: usize,
    },
    /// The progress limit is zero, which would kill every incarnation.
    #[error("actor kind {0:?} has no time to make progress")]
    Progress(&'static str),
}

/// Checks the rules of one kind.
///
/// # Errors
/// The first rule that the kind breaks.
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

/// Checks the rules of all kinds of a process: each kind's own rules, and that no name is used twice.
///
/// # Errors
/// The first rule that a kind breaks.
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

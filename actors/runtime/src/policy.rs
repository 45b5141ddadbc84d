//! The restart policy: a pure decision of what follows when an incarnation terminates. The supervisor carries it out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Instant;
use crate::kind::{ActorKind, Exhausted, OnFailure};

/// Why an incarnation terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The incarnation was asked to stop, or its loop returned.
    Clean,
    /// The start, a message, the loop or the stop returned an error.
    Failed(String),
    /// The actor's code panicked.
    Panicked(String),
    /// The incarnation made no progress for this long and was killed.
    Stuck(Duration),
    /// The incarnation was killed by the shutdown or by its kind's `OnShutdown::Kill`.
    Killed,
    /// A child's failure was escalated to this incarnation.
    Child(String),
}

impl Exit {
    /// Returns the text kept as the actor's last error; `None` for an exit that is no failure.
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::Clean | Self::Killed => None,
            Self::Failed(error) => Some(error.clone()),
            Self::Panicked(message) => Some(format!("panicked: {message}")),
            Self::Stuck(quiet) => Some(format!("no progress for {quiet:?}")),
            Self::Child(error) => Some(error.clone()),
        }
    }

    /// Returns the exit's name in traces.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Failed(_) => "failed",
            Self::Panicked(_) => "panicked",
            Self::Stuck(_) => "stuck",
            Self::Killed => "killed",
            Self::Child(_) => "child",
        }
    }
}

/// What the supervisor has to do after a termination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The actor has ended.
    End,
    /// Start the next incarnation after this pause (before jitter).
    Restart(Duration),
    /// End the actor and fail its parent.
    Escalate,
    /// End the actor and stop the process.
    StopProcess,
}

/// The times of an actor's failures within the window of its restart policy.
#[derive(Debug, Default)]
pub(crate) struct History {
    failures: VecDeque<Instant>,
}

/// Decides what follows `exit` at `now`. `asked` is true when the actor was asked to stop; then the actor is not restarted.
pub(crate) fn decide(kind: &ActorKind, history: &mut History, exit: &Exit, asked: bool, now: Instant) -> Verdict {
    if asked || matches!(exit, Exit::Clean | Exit::Killed) {
        return Verdict::End;
    }
    match kind.on_failure {
        OnFailure::Escalate => Verdict::Escalate,
        OnFailure::StopProcess => Verdict::StopProcess,
        OnFailure::Restart { backoff, max, within, then } => {
            while history.failures.front().is_some_and(|at| now - *at >= within) {
                history.failures.pop_front();
            }
            history.failures.push_back(now);
            let failures = u32::try_from(history.failures.len()).unwrap_or(u32::MAX);
            if failures <= max {
                return Verdict::Restart(backoff.pause(failures));
            }
            match then {
                Exhausted::Escalate => Verdict::Escalate,
                Exhausted::StopProcess => Verdict::StopProcess,
                Exhausted::GiveUp => Verdict::End,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::kind::Backoff;

    const ROW: ActorKind = ActorKind {
        name: "test.row",
        on_failure: OnFailure::Restart {
            backoff: Backoff { first: Duration::from_secs(1), max: Duration::from_secs(8) },
            max: 3,
            within: Duration::from_secs(60),
            then: Exhausted::StopProcess,
        },
        ..ActorKind::DEFAULT
    };

    fn failed() -> Exit {
        Exit::Failed("x".to_owned())
    }

    #[test]
    fn a_full_window_ends_the_restarts() {
        let (mut history, start) = (History::default(), clock::now());
        let verdicts: Vec<_> =
            (0..4).map(|i| decide(&ROW, &mut history, &failed(), false, start + Duration::from_secs(i))).collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Restart(Duration::from_secs(1)),
                Verdict::Restart(Duration::from_secs(2)),
                Verdict::Restart(Duration::from_secs(4)),
                Verdict::StopProcess
            ]
        );
    }

    #[test]
    fn failures_older_than_the_window_are_forgiven() {
        let (mut history, start) = (History::default(), clock::now());
        for i in 0..20 {
            let verdict = decide(&ROW, &mut history, &failed(), false, start + Duration::from_secs(60 * i));
            assert_eq!(verdict, Verdict::Restart(Duration::from_secs(1)));
        }
        assert_eq!(history.failures.len(), 1);
    }

    #[test]
    fn what_was_asked_to_stop_is_not_restarted() {
        let mut history = History::default();
        assert_eq!(decide(&ROW, &mut history, &failed(), true, clock::now()), Verdict::End);
        assert_eq!(decide(&ROW, &mut history, &Exit::Clean, false, clock::now()), Verdict::End);
        assert_eq!(decide(&ROW, &mut history, &Exit::Killed, false, clock::now()), Verdict::End);
    }

    #[test]
    fn each_failure_counts_alike() {
        for exit in [failed(), Exit::Panicked("p".into()), Exit::Stuck(Duration::from_secs(9)), Exit::Child("c".into())]
        {
            let verdict = decide(&ROW, &mut History::default(), &exit, false, clock::now());
            assert_eq!(verdict, Verdict::Restart(Duration::from_secs(1)));
            assert!(exit.error().is_some());
        }
    }
}

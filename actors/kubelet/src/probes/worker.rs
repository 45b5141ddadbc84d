//! Decides when a probe checks, and what a result means (`pkg/kubelet/prober/worker.go`). Pure: performs no I/O and reads no clock.

use super::{Gate, Kind, Probe, Verdict};

/// Next action of a probe task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Do nothing.
    Wait,
    /// Perform a check.
    Look,
    /// Report success, and end.
    End,
}

/// State of one probe of one running container.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    probe: &'a Probe,
    last: Option<Verdict>,
    /// Number of equal results in a row.
    run: u32,
    /// Whether no further result about this container is needed.
    on_hold: bool,
}

impl<'a> Worker<'a> {
    pub(super) const fn new(probe: &'a Probe) -> Self {
        Self { probe, last: None, run: 0, on_hold: false }
    }

    /// Returns the action after the container has run for `ran` whole seconds.
    pub(super) fn turn(&self, gate: Gate, ran: i64) -> Turn {
        let kind = self.probe.kind;
        if self.on_hold {
            return Turn::Wait;
        }
        if gate.stopping && kind != Kind::Readiness {
            return Turn::End;
        }
        if ran < self.probe.initial_delay || gate.started == (kind == Kind::Startup) {
            return Turn::Wait;
        }
        Turn::Look
    }

    /// Records the result of a check; returns the verdict to report, if it changes now.
    pub(super) fn found(&mut self, verdict: Verdict) -> Option<Verdict> {
        self.run = if self.last == Some(verdict) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(verdict);
        let needed = match verdict {
            Verdict::Success => self.probe.success_threshold,
            Verdict::Failure => self.probe.failure_threshold,
            Verdict::Unknown => 1,
        };
        if self.run < needed {
            return None;
        }
        let restarts = self.probe.kind == Kind::Liveness && verdict == Verdict::Failure;
        if restarts || self.probe.kind == Kind::Startup {
            // The container will be replaced after this failure, or this probe needs no further result.
            self.on_hold = true;
            self.run = 0;
        }
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probes::Check;

    fn probe(kind: Kind, success_threshold: u32, failure_threshold: u32) -> Probe {
        Probe {
            kind,
            check: Check::Nothing,
            initial_delay: 5,
            period: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            success_threshold,
            failure_threshold,
            grace: None,
        }
    }

    const NEW: Gate = Gate { started: false, stopping: false };
    const STARTED: Gate = Gate { started: true, stopping: false };

    #[test]
    fn nothing_is_looked_at_before_its_time() {
        for (kind, gate, ran, want) in [
            (Kind::Readiness, STARTED, 4, Turn::Wait),
            (Kind::Readiness, STARTED, 5, Turn::Look),
            (Kind::Readiness, NEW, 5, Turn::Wait),
            (Kind::Liveness, NEW, 5, Turn::Wait),
            (Kind::Liveness, STARTED, 5, Turn::Look),
            (Kind::Startup, NEW, 4, Turn::Wait),
            (Kind::Startup, NEW, 5, Turn::Look),
            (Kind::Startup, STARTED, 5, Turn::Wait),
        ] {
            assert_eq!(Worker::new(&probe(kind, 1, 1)).turn(gate, ran), want, "{kind:?} {gate:?} {ran}");
        }
    }

    #[test]
    fn whether_a_pod_that_is_deleted_lives_is_no_question_but_whether_it_is_ready_is() {
        let stopping = Gate { stopping: true, ..STARTED };
        assert_eq!(Worker::new(&probe(Kind::Liveness, 1, 1)).turn(stopping, 9), Turn::End);
        assert_eq!(Worker::new(&probe(Kind::Startup, 1, 1)).turn(Gate { stopping: true, ..NEW }, 0), Turn::End);
        assert_eq!(Worker::new(&probe(Kind::Readiness, 1, 1)).turn(stopping, 9), Turn::Look);
    }

    #[test]
    fn only_verdicts_in_a_row_count() {
        let probe = probe(Kind::Readiness, 2, 3);
        let mut worker = Worker::new(&probe);
        let (yes, no) = (Verdict::Success, Verdict::Failure);
        for (verdict, want) in [
            (no, None),
            (no, None),
            (yes, None),
            (no, None),
            (no, None),
            (no, Some(no)),
            (no, Some(no)),
            (yes, None),
            (yes, Some(yes)),
            (yes, Some(yes)),
        ] {
            assert_eq!(worker.found(verdict), want);
        }
    }

    #[test]
    fn a_container_that_will_be_restarted_or_has_started_is_left_alone() {
        let (alive, startup) = (probe(Kind::Liveness, 1, 2), probe(Kind::Startup, 1, 2));
        let mut worker = Worker::new(&alive);
        assert_eq!(worker.found(Verdict::Success), Some(Verdict::Success));
        assert_eq!(worker.turn(STARTED, 9), Turn::Look);
        assert_eq!(worker.found(Verdict::Failure), None);
        assert_eq!(worker.found(Verdict::Failure), Some(Verdict::Failure));
        assert_eq!(worker.turn(STARTED, 9), Turn::Wait);
        for verdict in [Verdict::Success, Verdict::Failure] {
            let mut worker = Worker::new(&startup);
            while worker.found(verdict).is_none() {}
            assert_eq!(worker.turn(NEW, 9), Turn::Wait);
        }
    }
}

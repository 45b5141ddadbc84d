//! The task of one probe of one container.

use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::{clock, rng};
use oarlock_schema::Str;
use tokio::sync::{mpsc, watch};

use super::check::Found;
use super::worker::{Turn, Worker};
use super::{Exec, Gate, Kind, Probe, Report, Subject, Verdict};

/// Largest number of attempts of a check without a result.
const MAX_ATTEMPTS: usize = 3;

/// A container that started at most this long before the kubelet counts as started by it.
const START_TOLERANCE: Duration = Duration::from_secs(10);

/// Callback for events about the container: reason and message of a Warning.
pub(crate) type Tell = Arc<dyn Fn(&'static str, String) + Send + Sync>;

/// Inputs of a probe task, besides the probe.
pub(crate) struct Prober<E: ?Sized> {
    pub(crate) subject: Subject,
    pub(crate) runtime: Arc<E>,
    pub(crate) tell: Tell,
    pub(crate) gate: watch::Receiver<Gate>,
    pub(crate) reports: mpsc::Sender<Report>,
    /// Age of this kubelet. A young kubelet finds many running containers at once, so their probes begin at random times in the first period.
    pub(crate) age: Duration,
}

impl<E: ?Sized> std::fmt::Debug for Prober<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// Probes a container until its gate closes, its pod is deleted (except for readiness), or the report channel closes.
pub(crate) async fn run<E: Exec + ?Sized>(prober: Prober<E>, probe: Arc<Probe>) {
    let mut closing = prober.gate.clone();
    tokio::select! {
        biased;
        () = closed(&mut closing) => {}
        () = look_at(prober, &probe) => {}
    }
}

async fn closed(gate: &mut watch::Receiver<Gate>) {
    while gate.changed().await.is_ok() {}
}

async fn look_at<E: Exec + ?Sized>(mut prober: Prober<E>, probe: &Probe) {
    // A verdict from before the restart stays valid until a check shows another.
    let fresh = i64::try_from((prober.age + START_TOLERANCE).as_secs()).unwrap_or(i64::MAX) >= prober.ran();
    if fresh && !prober.report(probe, probe.kind.initial()).await {
        return;
    }
    if probe.period > prober.age {
        let part = u64::try_from(probe.period.as_nanos()).unwrap_or(u64::MAX);
        clock::sleep(Duration::from_nanos(rng::below(part))).await;
    }
    let mut worker = Worker::new(probe);
    let mut ticks = clock::interval(probe.period);
    loop {
        let gate = *prober.gate.borrow_and_update();
        match worker.turn(gate, prober.ran()) {
            Turn::Wait => {}
            Turn::Look => {
                if let Some(verdict) = prober.look(probe).await.and_then(|verdict| worker.found(verdict))
                    && !prober.report(probe, verdict).await
                {
                    return;
                }
            }
            Turn::End => {
                prober.report(probe, Verdict::Success).await;
                return;
            }
        }
        tokio::select! {
            _ = ticks.tick() => {}
            changed = prober.gate.changed() => {
                if changed.is_err() {
                    return;
                }
                // A container that has just started is checked for readiness at once; the period starts anew.
                if probe.kind == Kind::Readiness {
                    ticks = clock::interval(probe.period);
                }
            }
        }
    }
}

impl<E: Exec + ?Sized> Prober<E> {
    /// Returns the whole seconds since the container's start.
    fn ran(&self) -> i64 {
        clock::wall().as_second().saturating_sub(self.subject.started)
    }

    /// Performs the check, up to three times without a result; `None` when no attempt had a result.
    async fn look(&self, probe: &Probe) -> Option<Verdict> {
        let name = probe.kind.name();
        let once = || probe.check.look(&self.subject.id, self.subject.ip, probe.timeout, &*self.runtime);
        let mut found = once().await;
        for _ in 1..MAX_ATTEMPTS {
            if !matches!(found, Found::Error(..)) {
                break;
            }
            found = once().await;
        }
        match found {
            Found::Success => Some(Verdict::Success),
            Found::Warning(why) => {
                (self.tell)("ProbeWarning", format!("{name} probe warning: {why}"));
                Some(Verdict::Success)
            }
            Found::Failure(why) => {
                (self.tell)("Unhealthy", format!("{name} probe failed: {why}"));
                Some(Verdict::Failure)
            }
            Found::Error(state, why) => {
                (self.tell)("Unhealthy", format!("{name} probe errored and resulted in {state} state: {why}"));
                None
            }
        }
    }

    /// Sends a report; false when the channel is closed.
    async fn report(&self, probe: &Probe, verdict: Verdict) -> bool {
        let Subject { pod, index, id, .. } = &self.subject;
        let (pod, id): (Str, Str) = (pod.clone(), id.clone());
        let report = Report { pod, index: *index, id, kind: probe.kind, verdict, grace: probe.grace };
        self.reports.send(report).await.is_ok()
    }
}

//! Durations of scheduling attempts, under upstream's names and with upstream's bounds.
//!
//! The process that queues a pod observes the pod's attempts, also those that the arbiter of another process carries out: the sum over all processes has each attempt once, and a
//! shard that moves takes nothing with it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_runtime::clock;
use oarlock_telemetry::metrics::{Histogram, HistogramWithExemplars, exemplar, exponential};
use oarlock_telemetry::traces::{self, Change};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::framework::Call;
use crate::queue::{Popped, Stamp};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The pod is bound.
    Scheduled,
    /// The pod fits on no node now.
    Unschedulable,
    /// The attempt failed.
    Error,
}

/// Labels of [`Attempt`], by its value.
const RESULTS: [&str; 3] = ["scheduled", "unschedulable", "error"];
/// Number of attempts from which on all share a label.
const MANY_ATTEMPTS: usize = 15;
/// Labels of the numbers of attempts.
const ATTEMPTS: [&str; MANY_ATTEMPTS] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15+"];
/// Labels of the end of a binding: written, or failed.
const BIND_STATUS: [&str; 2] = ["Success", "Error"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    result: &'static str,
    profile: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodLabels {
    attempts: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PointLabels {
    extension_point: &'static str,
    status: &'static str,
    profile: Arc<str>,
}

type Pods = Family<PodLabels, Histogram, fn() -> Histogram>;

/// The metrics of all schedulers of a process.
struct Families {
    attempts: Family<AttemptLabels, HistogramWithExemplars, fn() -> HistogramWithExemplars>,
    algorithm: Histogram,
    pods: Pods,
    pod_attempts: Histogram,
    points: Family<PointLabels, Histogram, fn() -> Histogram>,
    victims: Histogram,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        Self {
            attempts: Family::new_with_constructor(|| HistogramWithExemplars::new(exponential(0.001, 2.0, 15))),
            algorithm: Histogram::new(exponential(0.001, 2.0, 15)),
            pods: Family::new_with_constructor(|| Histogram::new(exponential(0.01, 2.0, 20))),
            pod_attempts: Histogram::new(exponential(1.0, 2.0, 5)),
            points: Family::new_with_constructor(|| Histogram::new(exponential(0.0001, 2.0, 12))),
            victims: Histogram::new(exponential(1.0, 2.0, 7)),
        }
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Time of an attempt, from the queue to its end";
        registry.register("scheduler_scheduling_attempt_duration_seconds", help, self.attempts.clone());
        let help = "Time to find a node, the arbiter's check included where it is in the process";
        registry.register("scheduler_scheduling_algorithm_duration_seconds", help, self.algorithm.clone());
        let help = "Time from the first attempt to the binding, by number of attempts";
        registry.register("scheduler_pod_scheduling_sli_duration_seconds", help, self.pods.clone());
        let help = "Attempts of pods that were bound";
        registry.register("scheduler_pod_scheduling_attempts", help, self.pod_attempts.clone());
        let help = "Time of an extension point";
        registry.register("scheduler_framework_extension_point_duration_seconds", help, self.points.clone());
        let help = "Victims of preemptions that the arbiter of this process allowed";
        registry.register("scheduler_preemption_victims", help, self.victims.clone());
    }
}

/// The metrics of one scheduler.
pub(super) struct AttemptMetrics {
    attempts: [HistogramWithExemplars; RESULTS.len()],
    algorithm: Histogram,
    /// By number of attempts. Made with the first binding of each number, since most pods are bound at once.
    pods: Pods,
    pod_attempts: Histogram,
    binds: [Histogram; BIND_STATUS.len()],
    victims: Histogram,
}

impl AttemptMetrics {
    /// Returns the metrics of a scheduler, by the first name that it serves.
    pub(super) fn of(profile: &str) -> Self {
        Self::within(&FAMILIES, profile)
    }

    fn within(families: &Families, profile: &str) -> Self {
        let profile: Arc<str> = profile.into();
        let attempts = |result| AttemptLabels { result, profile: Arc::clone(&profile) };
        let bind = |status| PointLabels { extension_point: "Bind", status, profile: Arc::clone(&profile) };
        Self {
            attempts: RESULTS.map(|result| families.attempts.get_or_create_owned(&attempts(result))),
            algorithm: families.algorithm.clone(),
            pods: families.pods.clone(),
            pod_attempts: families.pod_attempts.clone(),
            binds: BIND_STATUS.map(|status| families.points.get_or_create_owned(&bind(status))),
            victims: families.victims.clone(),
        }
    }

    /// Records that a node was found within this time.
    pub(super) fn found_node(&self, took: Duration) {
        self.algorithm.observe(took.as_secs_f64());
    }

    /// Records the end of an attempt at `now`.
    pub(super) fn ended(&self, popped: &Popped, result: Attempt, now: Stamp) {
        let exemplar = if traces::exporting() {
            exemplar(&Change::new(&popped.pod.uid, popped.pod.generation).context())
        } else {
            None
        };
        let when = exemplar.is_some().then(|| clock::wall().into());
        if let Some(attempts) = self.attempts.get(result as usize) {
            attempts.observe(now.since(popped.taken).as_secs_f64(), exemplar, when);
        }
        if result == Attempt::Scheduled {
            let number = (popped.attempt as usize).clamp(1, MANY_ATTEMPTS);
            if let Some(attempts) = ATTEMPTS.get(number - 1) {
                let pods = self.pods.get_or_create(&PodLabels { attempts });
                pods.observe(now.since(popped.first_attempt).as_secs_f64());
            }
            self.pod_attempts.observe(f64::from(popped.attempt));
        }
    }

    /// Records a binding that took this time.
    pub(super) fn bind(&self, written: bool, took: Duration) {
        let [success, error] = &self.binds;
        let binds = if written { success } else { error };
        binds.observe(took.as_secs_f64());
    }

    /// Records the number of victims if these writes are those of a preemption.
    pub(super) fn preemption(&self, calls: &[Call]) {
        if calls.contains(&Call::Nominate) {
            let victims =
                calls.iter().find_map(|call| if let Call::Evict(victims) = call { Some(victims) } else { None });
            self.victims.observe(victims.map_or(0, Vec::len) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;
    use crate::testing::World;

    #[test]
    fn attempts_have_upstreams_names_labels_and_bounds() {
        let (families, mut registry) = (Families::new(), Registry::default());
        families.register(&mut registry);
        let metrics = AttemptMetrics::within(&families, "default-scheduler");
        let pod = World::new(&[]).pod("a", "");
        let popped = |attempt| Popped {
            pod: Arc::clone(&pod),
            queued: Stamp(0),
            attempt,
            first_attempt: Stamp(0),
            taken: Stamp(2_000_000_000),
        };
        let now = Stamp(2_500_000_000);
        metrics.found_node(Duration::from_millis(3));
        metrics.ended(&popped(1), Attempt::Unschedulable, now);
        metrics.ended(&popped(2), Attempt::Error, now);
        metrics.ended(&popped(3), Attempt::Scheduled, now);
        metrics.ended(&popped(40), Attempt::Scheduled, now);
        metrics.bind(true, Duration::from_millis(1));
        metrics.bind(false, Duration::from_millis(1));
        metrics.preemption(&[Call::Bind]);
        metrics.preemption(&[Call::Nominate, Call::Evict(vec![Arc::clone(&pod), Arc::clone(&pod)])]);
        let text = encode(Format::OpenMetrics, [&registry]);
        let attempt = "scheduler_scheduling_attempt_duration_seconds";
        oarlock_testkit::metrics::has(
            &text,
            [
                format!("{attempt}_count{{result=\"scheduled\",profile=\"default-scheduler\"}} 2"),
                format!("{attempt}_bucket{{le=\"0.256\",result=\"error\",profile=\"default-scheduler\"}} 0"),
                format!("{attempt}_bucket{{le=\"0.512\",result=\"error\",profile=\"default-scheduler\"}} 1"),
                "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"0.004\"} 1".to_owned(),
                "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=\"3\"} 2.5".to_owned(),
                "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"15+\"} 1".to_owned(),
                "scheduler_pod_scheduling_attempts_bucket{le=\"4.0\"} 1".to_owned(),
                "scheduler_preemption_victims_sum 2.0".to_owned(),
                "scheduler_preemption_victims_count 1".to_owned(),
            ],
        );
        oarlock_testkit::metrics::check(
            &text,
            &[
                "scheduler_scheduling_attempt_duration_seconds",
                "scheduler_scheduling_algorithm_duration_seconds",
                "scheduler_pod_scheduling_sli_duration_seconds",
                "scheduler_pod_scheduling_attempts",
                "scheduler_framework_extension_point_duration_seconds",
                "scheduler_preemption_victims",
            ],
        );
    }
}

//! Exports the [status](SchedulerStatus) of this process's schedulers to Prometheus, under upstream's metric names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::status::SchedulerStatus;

/// The schedulers of this process, by the first name that they serve.
#[derive(Debug, Default)]
struct Shown(Mutex<BTreeMap<String, SchedulerStatus>>);

static SHOWN: LazyLock<Arc<Shown>> = LazyLock::new(|| {
    let shown = Arc::<Shown>::default();
    oarlock_telemetry::registry().declare(|registry| registry.register_collector(Box::new(Arc::clone(&shown))));
    shown
});

/// Sets the current status of a scheduler.
pub(super) fn show(profile: &str, seen: &SchedulerStatus) {
    SHOWN.0.lock().insert(profile.to_owned(), seen.clone());
}

type Figure = fn(&SchedulerStatus) -> u64;

/// Numbers of waiting pods, by queue.
const QUEUES: [(&str, Figure); 4] = [
    ("active", |seen| seen.active as u64),
    ("backoff", |seen| seen.backing_off as u64),
    ("unschedulable", |seen| seen.waiting as u64),
    ("gated", |seen| seen.gated as u64),
];

/// Numbers of scheduling attempts, by result. The arbiter's process counts the bindings of all shards' pods.
const RESULTS: [(&str, Figure); 3] =
    [("scheduled", |seen| seen.bound), ("unschedulable", |seen| seen.unschedulable), ("error", |seen| seen.failed)];

/// Numbers of proposals sent to another process's arbiter, by result. Upstream has no counterpart.
const PROPOSALS: [(&str, Figure); 5] = [
    ("bound", |seen| seen.proposals.bound),
    ("nominated", |seen| seen.proposals.nominated),
    ("refused", |seen| seen.proposals.refused.values().sum()),
    ("undelivered", |seen| seen.proposals.undelivered),
    ("unknown", |seen| seen.proposals.unknown),
];

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let shown = self.0.lock();
        let help = "Pods that wait, by where they do";
        let mut pending = encoder.encode_descriptor("scheduler_pending_pods", help, None, MetricType::Gauge)?;
        for (queue, figure) in QUEUES {
            let pods: u64 = shown.values().map(figure).sum();
            pending.encode_family(&[("queue", queue)])?.encode_gauge(&pods)?;
        }
        for (name, help, label, columns) in [
            (
                "scheduler_schedule_attempts",
                "Attempts to schedule pods, by what became of them",
                "result",
                &RESULTS[..],
            ),
            ("oarlock_scheduler_proposals", "Proposals to the arbiter of another process", "answer", &PROPOSALS[..]),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (profile, seen) in shown.iter() {
                for (value, figure) in columns {
                    let labels = [("profile", profile.as_str()), (label, *value)];
                    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&figure(seen), None)?;
                }
            }
        }
        let help = "Pods that fit nowhere and were looked at for preemption";
        let attempts: u64 = shown.values().map(|seen| seen.preemption_attempts).sum();
        encoder
            .encode_descriptor("scheduler_preemption_attempts", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&attempts, None)?;
        let help = "1 while the arbiter of this process decides";
        let mut family = encoder.encode_descriptor("oarlock_arbiter_decides", help, None, MetricType::Gauge)?;
        for (profile, seen) in shown.iter() {
            family.encode_family(&[("profile", profile.as_str())])?.encode_gauge(&u64::from(seen.decides))?;
        }
        let help = "Verdicts of this process's arbiter, by the constraint that spoke against";
        let mut family = encoder.encode_descriptor("oarlock_arbiter_verdicts", help, None, MetricType::Counter)?;
        for (profile, seen) in shown.iter() {
            let refused = seen.refused.iter().map(|(constraint, count)| ("refused", *constraint, *count));
            for (verdict, constraint, count) in [("accepted", "", seen.accepted)].into_iter().chain(refused) {
                let labels = [("profile", profile.as_str()), ("verdict", verdict), ("constraint", constraint)];
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn what_is_shown_has_upstreams_names() {
        let mut seen = SchedulerStatus::default();
        (seen.active, seen.backing_off, seen.waiting, seen.gated) = (2, 3, 4, 5);
        (seen.bound, seen.unschedulable, seen.failed) = (6, 7, 8);
        (seen.preemption_attempts, seen.decides, seen.accepted) = (9, true, 4);
        seen.refused.insert("fit", 2);
        seen.proposals.refused.insert("fit".to_owned(), 3);
        let mut registry = Registry::default();
        let shown = BTreeMap::from([("default-scheduler".to_owned(), seen)]);
        registry.register_collector(Box::new(Shown(Mutex::new(shown))));
        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();
        oarlock_testkit::metrics::check(
            &text,
            &["scheduler_pending_pods", "scheduler_schedule_attempts_total", "scheduler_preemption_attempts_total"],
        );
        for line in [
            "scheduler_pending_pods{queue=\"active\"} 2",
            "scheduler_pending_pods{queue=\"backoff\"} 3",
            "scheduler_pending_pods{queue=\"unschedulable\"} 4",
            "scheduler_pending_pods{queue=\"gated\"} 5",
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"} 6",
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"unschedulable\"} 7",
            "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"error\"} 8",
            "oarlock_scheduler_proposals_total{profile=\"default-scheduler\",answer=\"refused\"} 3",
            "scheduler_preemption_attempts_total 9",
            "oarlock_arbiter_decides{profile=\"default-scheduler\"} 1",
            "oarlock_arbiter_verdicts_total{profile=\"default-scheduler\",verdict=\"accepted\",constraint=\"\"} 4",
            "oarlock_arbiter_verdicts_total{profile=\"default-scheduler\",verdict=\"refused\",constraint=\"fit\"} 2",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}

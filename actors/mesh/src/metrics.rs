//! The Prometheus metrics of this process's bus traffic; the same figures as [`inspect`](mod@crate::inspect) reports.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use oarlock_bus::proto::bus::v1::KindStats;
use oarlock_bus::{Bus, Role, WeakBus};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The bus connections of this process.
#[derive(Debug, Default)]
struct Buses(Mutex<Vec<WeakBus>>);

static BUSES: LazyLock<Arc<Buses>> = LazyLock::new(|| {
    let buses = Arc::<Buses>::default();
    oarlock_telemetry::registry().declare(|registry| registry.register_collector(Box::new(Arc::clone(&buses))));
    buses
});

/// Adds a bus connection to the metrics, until the connection is dropped.
pub(crate) fn show(bus: &Bus) {
    BUSES.0.lock().push(bus.downgrade());
}

impl Collector for Buses {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut carried = Carried::default();
        let mut buses = self.0.lock();
        buses.retain(|bus| match bus.upgrade() {
            Some(bus) => {
                carried.add(bus.identity().role(), bus.state().connected, bus.stats());
                true
            }
            None => false,
        });
        carried.encode(encoder)
    }
}

/// The traffic of this process by role, summed over the role's members: one process may run a thousand nodes.
#[derive(Debug, Default)]
struct Carried {
    connected: BTreeMap<&'static str, u64>,
    kinds: BTreeMap<(&'static str, String), KindStats>,
}

impl Carried {
    fn add(&mut self, role: Role, connected: bool, kinds: Vec<KindStats>) {
        *self.connected.entry(role.as_str()).or_default() += u64::from(connected);
        for one in kinds {
            let sum = self.kinds.entry((role.as_str(), one.kind.clone())).or_default();
            *sum = KindStats {
                kind: one.kind,
                sent_messages: sum.sent_messages + one.sent_messages,
                sent_bytes: sum.sent_bytes + one.sent_bytes,
                heard_messages: sum.heard_messages + one.heard_messages,
                heard_bytes: sum.heard_bytes + one.heard_bytes,
                overloads: sum.overloads + one.overloads,
                expired: sum.expired + one.expired,
                refused: sum.refused + one.refused,
                malformed: sum.malformed + one.malformed,
                lost: sum.lost + one.lost,
                failed: sum.failed + one.failed,
                asked_p99_us: sum.asked_p99_us.max(one.asked_p99_us),
                answered_p99_us: sum.answered_p99_us.max(one.answered_p99_us),
            };
        }
    }

    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Connections to the bus that stand";
        let mut family = encoder.encode_descriptor("oarlock_bus_connections", help, None, MetricType::Gauge)?;
        for (role, connected) in &self.connected {
            family.encode_family(&[("role", *role)])?.encode_gauge(connected)?;
        }
        for (name, help, label, columns) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for ((role, kind), stats) in &self.kinds {
                for (value, count) in columns {
                    let labels = [("role", *role), ("kind", kind.as_str()), (label, value)];
                    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count(stats), None)?;
                }
            }
        }
        for (name, help, micros) in TIMES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ((role, kind), stats) in self.kinds.iter().filter(|(_, stats)| micros(stats) > 0) {
                let seconds = micros(stats) as f64 / 1e6;
                family.encode_family(&[("role", *role), ("kind", kind.as_str())])?.encode_gauge(&seconds)?;
            }
        }
        Ok(())
    }
}

type Count = fn(&KindStats) -> u64;

/// A counter metric: name, help text, the label that distinguishes the columns, and the columns.
type Counter = (&'static str, &'static str, &'static str, &'static [(&'static str, Count)]);

const COUNTERS: [Counter; 3] = [
    (
        "oarlock_bus_messages",
        "Messages on the bus",
        "direction",
        &[("sent", |kind| kind.sent_messages), ("heard", |kind| kind.heard_messages)],
    ),
    (
        "oarlock_bus_bytes",
        "Bytes of messages on the bus",
        "direction",
        &[("sent", |kind| kind.sent_bytes), ("heard", |kind| kind.heard_bytes)],
    ),
    (
        "oarlock_bus_failures",
        "What was not answered, not sent, or not heard, by reason",
        "reason",
        &[
            ("overloaded", |kind| kind.overloads),
            ("expired", |kind| kind.expired),
            ("lost", |kind| kind.lost),
            ("refused", |kind| kind.refused),
            ("malformed", |kind| kind.malformed),
            ("failed", |kind| kind.failed),
        ],
    ),
];

const TIMES: [(&str, &str, Count); 2] = [
    ("oarlock_bus_ask_p99_seconds", "Time from an ask to its outcome, which 99 of 100 keep", |kind| kind.asked_p99_us),
    ("oarlock_bus_answer_p99_seconds", "Time from an ask's arrival to its answer, likewise", |kind| {
        kind.answered_p99_us
    }),
];

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Shown(Carried);

    impl Collector for Shown {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
            self.0.encode(encoder)
        }
    }

    #[test]
    fn members_of_a_role_add_up_and_the_slowest_counts() {
        let kind = |sent_messages, asked_p99_us| KindStats {
            kind: "unit".to_owned(),
            sent_messages,
            sent_bytes: 7,
            overloads: 1,
            asked_p99_us,
            ..KindStats::default()
        };
        let mut carried = Carried::default();
        carried.add(Role::Node, true, vec![kind(3, 1500)]);
        carried.add(Role::Node, false, vec![kind(4, 2500)]);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(carried)));
        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();
        for line in [
            "oarlock_bus_connections{role=\"node\"} 1",
            "oarlock_bus_messages_total{role=\"node\",kind=\"unit\",direction=\"sent\"} 7",
            "oarlock_bus_bytes_total{role=\"node\",kind=\"unit\",direction=\"sent\"} 14",
            "oarlock_bus_failures_total{role=\"node\",kind=\"unit\",reason=\"overloaded\"} 2",
            "oarlock_bus_ask_p99_seconds{role=\"node\",kind=\"unit\"} 0.0025",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(!text.contains("answer_p99_seconds{"), "{text}");
    }
}

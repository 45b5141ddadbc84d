//! Transactions by resource, under upstream's names (`etcd_*`). Reads are answered by the View, so writes are all that a request asks of etcd.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use oarlock_telemetry::metrics::Histogram;
use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::{Append, Expect};

/// Bounds of `etcd_request_duration_seconds`.
const BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Operations on an object, as upstream names them.
const OPERATIONS: [&str; 3] = ["create", "update", "delete"];
/// Largest number of resources with series of their own. Far more than there are; the others count as one.
const MAX_RESOURCES: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation: &'static str,
    group: Arc<str>,
    resource: Arc<str>,
}

/// The series of one operation on one resource.
#[derive(Clone, Debug)]
struct Series {
    requests: Counter,
    errors: Counter,
    durations: Histogram,
}

type OfResource = [Series; OPERATIONS.len()];

/// The metrics of all logs of a process.
struct Families {
    requests: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    /// Series by the prefix of the keys.
    known: RwLock<BTreeMap<Box<str>, Arc<OfResource>>>,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        Self {
            requests: Family::default(),
            errors: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            known: RwLock::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("etcd_requests", "Transactions", self.requests.clone());
        registry.register("etcd_request_errors", "Transactions without an outcome", self.errors.clone());
        registry.register("etcd_request_duration_seconds", "Time of a transaction", self.durations.clone());
    }

    fn of_resource(&self, prefix: &str) -> Arc<OfResource> {
        if let Some(known) = self.known.read().get(prefix) {
            return Arc::clone(known);
        }
        let mut known = self.known.write();
        let prefix = if known.len() < MAX_RESOURCES { prefix } else { "" };
        if let Some(known) = known.get(prefix) {
            return Arc::clone(known);
        }
        let (group, resource) = group_resource(prefix);
        let of = |operation| {
            let labels = Labels { operation, group: group.into(), resource: resource.into() };
            Series {
                requests: self.requests.get_or_create_owned(&labels),
                errors: self.errors.get_or_create_owned(&labels),
                durations: self.durations.get_or_create_owned(&labels),
            }
        };
        let new = Arc::new(OPERATIONS.map(of));
        known.insert(prefix.into(), Arc::clone(&new));
        new
    }

    fn count(&self, group: &[Append], answered: bool, took: Duration) {
        // A group is an object, followed by what is written along with it, such as a quota.
        let Some(object) = group.first() else { return };
        let of_resource = self.of_resource(object.key.resource());
        let [create, update, delete] = &*of_resource;
        let series = match (&object.expect, &object.value) {
            (_, None) => delete,
            (Expect::Absent, Some(_)) => create,
            (_, Some(_)) => update,
        };
        series.requests.inc();
        series.durations.observe(took.as_secs_f64());
        if !answered {
            series.errors.inc();
        }
    }
}

/// Returns group and resource of a prefix: `/registry/pods/`, `/registry/apps/deployments/`. Upstream's prefixes name a resource as its first versions did, so that a few differ from
/// the names of today.
fn group_resource(prefix: &str) -> (&str, &str) {
    let inner = prefix.strip_prefix("/registry/").unwrap_or(prefix).trim_matches('/');
    inner.rsplit_once('/').unwrap_or(("", inner))
}

/// Counts a transaction: whether etcd answered with an outcome, and how long that took.
pub(super) fn transaction(group: &[Append], answered: bool, took: Duration) {
    FAMILIES.count(group, answered, took);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use oarlock_meta::Revision;
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;
    use crate::Key;

    #[test]
    fn transactions_count_by_operation_and_resource() {
        let (families, mut registry) = (Families::new(), Registry::default());
        families.register(&mut registry);
        let pod = Key::namespaced("/registry/pods", "a", "b");
        let second = Duration::from_secs(1);
        families.count(&[Append::create(pod.clone(), Bytes::new())], true, second);
        families.count(&[Append::delete(pod, Revision(3))], false, second);
        families.count(&[Append::create(Key::new("/registry/apps/deployments", "a/b"), Bytes::new())], true, second);
        let text = encode(Format::OpenMetrics, [&registry]);
        oarlock_testkit::metrics::has(
            &text,
            [
                "etcd_requests_total{operation=\"create\",group=\"\",resource=\"pods\"} 1",
                "etcd_request_errors_total{operation=\"delete\",group=\"\",resource=\"pods\"} 1",
                "etcd_request_duration_seconds_bucket{le=\"1.0\",operation=\"create\",group=\"apps\",resource=\"deployments\"} 1",
            ],
        );
        oarlock_testkit::metrics::check(
            &text,
            &["etcd_requests_total", "etcd_request_errors_total", "etcd_request_duration_seconds"],
        );
    }

    #[test]
    fn prefixes_beyond_the_bound_share_their_series() {
        let (families, mut registry) = (Families::new(), Registry::default());
        families.register(&mut registry);
        for number in 0..10_000 {
            let key = Key::new(&format!("/registry/group{number}/things"), "a");
            families.count(&[Append::create(key, Bytes::new())], true, Duration::ZERO);
        }
        let text = encode(Format::OpenMetrics, [&registry]);
        let series = text.lines().filter(|line| line.starts_with("etcd_requests_total{")).count();
        assert_eq!(series, (MAX_RESOURCES + 1) * OPERATIONS.len());
    }
}

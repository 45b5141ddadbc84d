//! Metrics of what kubelets do to a real machine, under upstream's names: control groups, volumes, evictions.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use oarlock_telemetry::metrics::Histogram;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

use crate::metrics::{DEFAULT_BOUNDS, OperationLabel};

/// Bounds of the time that an operation on a volume takes, in seconds.
const VOLUME_BOUNDS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];
/// Upstream's signal of a volume `emptyDir` that has exceeded its limit.
const EMPTY_DIR_LIMIT: SignalLabel = SignalLabel { eviction_signal: "emptydirfs.limit" };

/// An operation on the control group of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupOperation {
    Create,
    Destroy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VolumeLabels {
    volume_plugin: &'static str,
    operation_name: &'static str,
    status: &'static str,
    migrated: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignalLabel {
    eviction_signal: &'static str,
}

/// A count without the suffix `_total`, since upstream's has none. Prometheus takes it as untyped.
#[derive(Clone, Debug, Default)]
struct PlainCount(Counter);

impl TypedMetric for PlainCount {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for PlainCount {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

struct Families {
    cgroups: Durations<OperationLabel>,
    volumes: Durations<VolumeLabels>,
    evictions: Family<SignalLabel, PlainCount>,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        Self {
            cgroups: Family::new_with_constructor(|| Histogram::new(DEFAULT_BOUNDS)),
            volumes: Family::new_with_constructor(|| Histogram::new(VOLUME_BOUNDS)),
            evictions: Family::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Time of an operation on a pod's control group";
        registry.register("kubelet_cgroup_manager_duration_seconds", help, self.cgroups.clone());
        let help = "Time of an operation on a volume";
        registry.register("storage_operation_duration_seconds", help, self.volumes.clone());
        registry.register("kubelet_evictions", "Pods that were evicted, by signal", self.evictions.clone());
    }

    fn cgroup(&self, operation: CgroupOperation, took: Duration) {
        let operation_type = match operation {
            CgroupOperation::Create => "create",
            CgroupOperation::Destroy => "destroy",
        };
        self.cgroups.get_or_create(&OperationLabel { operation_type }).observe(took.as_secs_f64());
    }

    fn mounted(&self, volume_plugin: &'static str, succeeded: bool, took: Duration) {
        let status = if succeeded { "success" } else { "fail-unknown" };
        let labels = VolumeLabels { volume_plugin, operation_name: "volume_mount", status, migrated: "false" };
        self.volumes.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// Records an operation on a control group.
pub(crate) fn cgroup(operation: CgroupOperation, took: Duration) {
    FAMILIES.cgroup(operation, took);
}

/// Records that a volume was set up or brought up to date, or could not be.
pub(crate) fn mounted(volume_plugin: &'static str, succeeded: bool, took: Duration) {
    FAMILIES.mounted(volume_plugin, succeeded, took);
}

/// Counts a pod that is evicted because a volume `emptyDir` has exceeded its limit.
pub(crate) fn evicted() {
    FAMILIES.evictions.get_or_create(&EMPTY_DIR_LIMIT).0.inc();
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};
    use oarlock_testkit::metrics::{check, has};

    use super::*;

    #[test]
    fn names_labels_and_bounds_are_upstreams() {
        let (families, mut registry) = (Families::new(), Registry::default());
        families.register(&mut registry);
        families.cgroup(CgroupOperation::Create, Duration::from_millis(2));
        families.cgroup(CgroupOperation::Destroy, Duration::from_millis(2));
        families.mounted("kubernetes.io/secret", true, Duration::from_millis(2));
        families.mounted("kubernetes.io/secret", false, Duration::from_millis(2));
        families.evictions.get_or_create(&EMPTY_DIR_LIMIT).0.inc();
        let text = encode(Format::OpenMetrics, [&registry]);
        has(&text, ["kubelet_evictions{eviction_signal=\"emptydirfs.limit\"} 1"]);
        let names =
            ["kubelet_cgroup_manager_duration_seconds", "storage_operation_duration_seconds", "kubelet_evictions"];
        check(&text, &names);
        has(&encode(Format::Plain, [&registry]), ["# TYPE kubelet_evictions untyped"]);
    }
}

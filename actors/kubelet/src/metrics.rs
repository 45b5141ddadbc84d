//! Metrics of the kubelets of a process, under upstream's names. A process with many nodes adds its nodes up; only `kubelet_node_name` has a series for each.

use std::sync::LazyLock;
use std::time::Duration;

use oarlock_telemetry::metrics::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::pod::{Pod, Stage, State, Step};

/// Prometheus' default bounds, which upstream uses for the work on pods.
pub(crate) const DEFAULT_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Bounds of the time until a pod runs.
const START_BOUNDS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0,
    600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// Kinds of work on a pod, as upstream's `SyncPodType` names them.
const WORK: [&str; 4] = ["create", "update", "sync", "kill"];
/// States of containers that the kubelet follows.
const STATES: [&str; 2] = ["running", "exited"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabel {
    node: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    container_state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OperationLabel {
    pub(crate) operation_type: &'static str,
}

/// The metrics of all kubelets of a process.
struct Families {
    nodes: Family<NodeLabel, Gauge>,
    pods: Gauge,
    containers: Family<StateLabel, Gauge>,
    starts: Histogram,
    work: Family<OperationLabel, Histogram, fn() -> Histogram>,
    /// Series of [`WORK`] and [`STATES`], found by index.
    works: [Histogram; WORK.len()],
    states: [Gauge; STATES.len()],
    started_pods: Counter,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let families = Families::new();
    oarlock_telemetry::registry().declare(|registry| families.register(registry));
    families
});

impl Families {
    fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DEFAULT_BOUNDS);
        let work: Family<OperationLabel, Histogram, fn() -> Histogram> = Family::new_with_constructor(histogram);
        let containers = Family::<StateLabel, Gauge>::default();
        Self {
            works: WORK.map(|operation_type| work.get_or_create_owned(&OperationLabel { operation_type })),
            states: STATES.map(|container_state| containers.get_or_create_owned(&StateLabel { container_state })),
            nodes: Family::default(),
            pods: Gauge::default(),
            containers,
            starts: Histogram::new(START_BOUNDS),
            work,
            started_pods: Counter::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("kubelet_node_name", "1 for each node of this process", self.nodes.clone());
        registry.register("kubelet_running_pods", "Pods with a sandbox", self.pods.clone());
        registry.register("kubelet_running_containers", "Containers by state", self.containers.clone());
        let help = "Time from the kubelet's first sight of a pod until its first container runs";
        registry.register("kubelet_pod_start_duration_seconds", help, self.starts.clone());
        registry.register("kubelet_pod_worker_duration_seconds", "Time of a step of a pod", self.work.clone());
        registry.register("kubelet_started_pods", "Sandboxes that were started", self.started_pods.clone());
    }
}

/// Records a step of a pod that was performed to its end.
pub(crate) fn worked(step: &Step, took: Duration) {
    let [create, update, sync, kill] = &FAMILIES.works;
    let series = match step {
        Step::Recall => sync,
        Step::Sandbox => {
            FAMILIES.started_pods.inc();
            create
        }
        Step::Start(_) => create,
        Step::Kill(_) => update,
        Step::Stop(_) | Step::Clean => kill,
    };
    series.observe(took.as_secs_f64());
}

/// Records the time until the first container of a pod ran.
pub(crate) fn started(took: Duration) {
    FAMILIES.starts.observe(took.as_secs_f64());
}

/// What a pod adds to the gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodShare {
    sandbox: bool,
    running: u16,
    exited: u16,
}

impl PodShare {
    /// Returns the share of a pod in its present state.
    pub(crate) fn of(pod: &Pod) -> Self {
        let count = |is: fn(&State) -> bool| {
            u16::try_from(pod.containers.iter().filter(|container| is(&container.state)).count()).unwrap_or(u16::MAX)
        };
        Self {
            sandbox: pod.sandbox.is_some() && pod.stage != Stage::Stopped,
            running: count(|state| matches!(state, State::Running(_))),
            exited: count(|state| matches!(state, State::Ended(_))),
        }
    }

    /// Whether a container runs.
    pub(crate) fn runs(self) -> bool {
        self.running > 0
    }
}

/// One node in the metrics, until the value is dropped: a node that is stopped or deleted leaves no series and no share of the sums.
#[derive(Debug)]
pub(crate) struct NodeMetrics {
    families: &'static Families,
    label: NodeLabel,
    pods: i64,
    running: i64,
    exited: i64,
}

impl std::fmt::Debug for Families {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Families").finish_non_exhaustive()
    }
}

impl NodeMetrics {
    /// Shows a node.
    pub(crate) fn show(node: &str) -> Self {
        Self::within(&FAMILIES, node)
    }

    fn within(families: &'static Families, node: &str) -> Self {
        let label = NodeLabel { node: node.to_owned() };
        families.nodes.get_or_create(&label).set(1);
        Self { families, label, pods: 0, running: 0, exited: 0 }
    }

    /// Replaces a pod's share by another one.
    pub(crate) fn replace(&mut self, old: PodShare, new: PodShare) {
        if old != new {
            let change = |old: u16, new: u16| i64::from(new) - i64::from(old);
            self.add(
                i64::from(new.sandbox) - i64::from(old.sandbox),
                change(old.running, new.running),
                change(old.exited, new.exited),
            );
        }
    }

    fn add(&mut self, pods: i64, running: i64, exited: i64) {
        let [of_running, of_exited] = &self.families.states;
        self.pods += pods;
        self.running += running;
        self.exited += exited;
        self.families.pods.inc_by(pods);
        of_running.inc_by(running);
        of_exited.inc_by(exited);
    }
}

impl Drop for NodeMetrics {
    fn drop(&mut self) {
        self.add(-self.pods, -self.running, -self.exited);
        self.families.nodes.remove(&self.label);
    }
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};
    use oarlock_testkit::metrics::has;

    use super::*;

    #[test]
    fn a_node_that_ends_leaves_no_series_and_no_sums() {
        let families: &'static Families = Box::leak(Box::new(Families::new()));
        let mut registry = Registry::default();
        families.register(&mut registry);
        let share = |running, exited| PodShare { sandbox: running > 0, running, exited };
        let (mut first, mut second) =
            (NodeMetrics::within(families, "node-1"), NodeMetrics::within(families, "node-2"));
        first.replace(PodShare::default(), share(2, 0));
        first.replace(PodShare::default(), share(1, 1));
        second.replace(PodShare::default(), share(3, 0));
        first.replace(share(1, 1), share(0, 2));
        families.works[0].observe(1.0);
        let text = || encode(Format::OpenMetrics, [&registry]);
        has(
            &text(),
            [
                "kubelet_node_name{node=\"node-1\"} 1",
                "kubelet_running_pods 2",
                "kubelet_running_containers{container_state=\"running\"} 5",
                "kubelet_running_containers{container_state=\"exited\"} 2",
            ],
        );
        oarlock_testkit::metrics::check(
            &text(),
            &[
                "kubelet_node_name",
                "kubelet_running_pods",
                "kubelet_running_containers",
                "kubelet_pod_start_duration_seconds",
                "kubelet_pod_worker_duration_seconds",
                "kubelet_started_pods_total",
            ],
        );
        drop(first);
        let left = text();
        has(&left, ["kubelet_running_pods 1", "kubelet_running_containers{container_state=\"exited\"} 0"]);
        assert!(!left.contains("node-1") && left.contains("node-2"), "{left}");
        drop(second);
        assert!(!text().contains("kubelet_node_name{"), "{}", text());
    }
}

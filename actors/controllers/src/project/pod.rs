//! The projection of pods for workloads, endpoints, node health and garbage collection.

use std::time::Duration;

use oarlock_informer::{Item, Project, ResourceName};
use oarlock_meta::Time;
use oarlock_pods::{conditions, sidecar};
use oarlock_schema::views::core_v1;
use oarlock_schema::{Obj, Str};

use super::daemon_pod::DaemonPod;
use super::{JobPod, TargetPort, time};

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not running yet, or without a phase.
    #[default]
    Pending,
    /// The state is unknown.
    Unknown,
    /// Running.
    Running,
    /// All containers ended successfully.
    Succeeded,
    /// A container failed for good.
    Failed,
}

/// A named container port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The port's name.
    pub(crate) name: Str,
    /// TCP, UDP, SCTP.
    pub(crate) protocol: Str,
    /// The port's number.
    pub(crate) number: i64,
}

/// A toleration of NoExecute taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toleration {
    /// The taints that are tolerated.
    pub(crate) taints: oarlock_pods::Toleration<Str>,
    /// The seconds for which they are tolerated; `None` for ever.
    pub(crate) seconds: Option<i64>,
}

/// The projection of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodView {
    /// `spec.nodeName`.
    pub(crate) node: Str,
    /// `status.phase`.
    pub(crate) phase: Phase,
    /// Whether condition Ready is True.
    pub(crate) ready: bool,
    /// The Ready condition's last transition.
    pub(crate) ready_since: Option<Time>,
    /// The largest restart count of a container.
    pub(crate) restarts: i64,
    /// `status.podIPs`.
    pub(crate) ips: Box<[Str]>,
    /// `spec.hostname`.
    pub(crate) hostname: Str,
    /// `spec.subdomain`.
    pub(crate) subdomain: Str,
    /// Named ports of containers and of sidecars.
    pub(crate) ports: Box<[Port]>,
    /// Tolerations with effect NoExecute or none, in their order.
    pub(crate) tolerations: Box<[Toleration]>,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost`.
    pub(crate) deletion_cost: i64,
    /// Names of the volumes that are claims, each with the name of its claim.
    pub(crate) claims: Box<[(Str, Str)]>,
    /// The fields that the job controller reads, in pods of Jobs.
    pub(crate) job: Option<Box<JobPod>>,
    /// The fields that the daemonset controller reads, in pods of DaemonSets.
    pub(crate) daemon: Option<Box<DaemonPod>>,
}

impl PodView {
    /// Whether the pod has ended.
    pub(crate) fn terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Returns the node of a DaemonSet's pod: the node to which the pod is bound, else the one to which affinity pins the pod; empty if there is neither
    /// (upstream `GetTargetNodeName`).
    pub(crate) fn target_node(&self) -> &str {
        if self.node.is_empty() { self.daemon.as_ref().map_or("", |daemon| &daemon.pinned) } else { &self.node }
    }

    /// Whether the pod has been ready for `seconds` (upstream `podutil.IsPodAvailable`).
    pub(crate) fn available(&self, seconds: i64, now: Time) -> bool {
        self.ready
            && (seconds <= 0
                || self.ready_since.is_some_and(|since| since.unix().saturating_add(seconds) <= now.unix()))
    }
}

/// Returns the time until the next ready pod has been ready for `seconds`; `None` if none will be without further changes.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Item<PodView>>,
    seconds: i64,
    now: Time,
) -> Option<Duration> {
    let due = |pod: &Item<PodView>| {
        let since = pod.value.ready_since.filter(|_| pod.value.ready && !pod.value.available(seconds, now))?;
        u64::try_from(since.unix().saturating_add(seconds).saturating_sub(now.unix())).ok()
    };
    pods.into_iter().filter_map(due).min().map(|seconds| Duration::from_secs(seconds.max(1)))
}

/// Whether a pod counts as a replica: neither ended nor being deleted (upstream `controller.IsPodActive`).
pub(crate) fn active(pod: &Item<PodView>) -> bool {
    !pod.value.terminal() && !pod.meta.deleting()
}

impl Project for PodView {
    const RESOURCE: ResourceName = ResourceName::core("pods");

    fn project(obj: &Obj) -> Self {
        let Some(pod) = obj.view::<core_v1::Pod<'_>>() else { return Self::default() };
        let (spec, status) = (pod.spec(), pod.status());
        let ready = conditions::ready(status);
        let named = sidecar::long_running(spec).flat_map(|container| container.ports().iter());
        let mut ips: Box<[Str]> =
            status.pod_ips().iter().map(|ip| Str::from(ip.ip())).filter(|ip| !ip.is_empty()).collect();
        if ips.is_empty() && !status.pod_ip().is_empty() {
            ips = Box::new([Str::from(status.pod_ip())]);
        }
        Self {
            node: spec.node_name().into(),
            phase: phase(status.phase()),
            ready: conditions::is_ready(status),
            ready_since: ready.and_then(|condition| time(condition.last_transition_time())),
            restarts: status.container_statuses().iter().map(|c| c.restart_count()).max().unwrap_or(0),
            ips,
            hostname: spec.hostname().into(),
            subdomain: spec.subdomain().into(),
            ports: named
                .filter(|port| !port.name().is_empty())
                .map(|port| Port {
                    name: port.name().into(),
                    protocol: port.protocol().into(),
                    number: port.container_port(),
                })
                .collect(),
            tolerations: spec
                .tolerations()
                .iter()
                .filter(|toleration| matches!(toleration.effect(), "" | "NoExecute"))
                .filter_map(|one| {
                    let taints = oarlock_pods::Toleration::read(one, Str::from)?;
                    Some(Toleration { taints, seconds: one.toleration_seconds() })
                })
                .collect(),
            deletion_cost: pod
                .metadata()
                .annotations()
                .get("controller.kubernetes.io/pod-deletion-cost")
                .and_then(|cost| cost.parse::<i32>().ok())
                .map_or(0, i64::from),
            claims: spec.volumes().iter().filter_map(claim).collect(),
            job: JobPod::read(pod),
            daemon: DaemonPod::read(pod),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

fn claim(volume: core_v1::Volume<'_>) -> Option<(Str, Str)> {
    let source = volume.persistent_volume_claim()?;
    Some((volume.name().into(), source.claim_name().into()))
}

fn phase(word: &str) -> Phase {
    match word {
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        "Unknown" => Phase::Unknown,
        _ => Phase::Pending,
    }
}

/// Returns the number of a Service's target port in this pod (upstream `podutil.FindPort`).
pub(crate) fn target_port(pod: &PodView, target: &TargetPort, protocol: &str) -> Option<i64> {
    match target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => {
            pod.ports.iter().find(|port| port.name == *name && port.protocol == protocol).map(|port| port.number)
        }
    }
}

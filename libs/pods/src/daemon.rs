//! Rules about the pods of DaemonSets (upstream `pkg/controller/daemon/util`).

use oarlock_schema::views::core_v1::PodSpec;

use crate::node_affinity::{Field, field};
use crate::toleration::Effect;

/// The taints that every daemon pod tolerates for ever: those that say that a node has a problem, which a daemon may be there to solve.
const ALWAYS_TOLERATED: [(&str, Effect); 6] = [
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
];
/// The taint that a daemon pod tolerates too if the pod has the network of its node: such a pod may bring the network up.
const WITH_HOST_NETWORK: (&str, Effect) = ("node.kubernetes.io/network-unavailable", Effect::NoSchedule);

/// Returns the keys and effects of the taints that a DaemonSet's pods tolerate whatever their template says (upstream `AddOrUpdateDaemonPodTolerations`).
pub fn tolerated_taints(host_network: bool) -> impl Iterator<Item = (&'static str, Effect)> {
    ALWAYS_TOLERATED.into_iter().chain(host_network.then_some(WITH_HOST_NETWORK))
}

/// Returns the name of the node to which required node affinity pins a pod (upstream `GetTargetNodeName` of pods that are not bound yet).
#[must_use]
pub fn pinned_node(spec: PodSpec<'_>) -> Option<&str> {
    let required = spec.affinity()?.node_affinity()?.required_during_scheduling_ignored_during_execution()?;
    let mut fields = required.node_selector_terms().iter().flat_map(|term| term.match_fields().iter());
    fields.find_map(|requirement| match field(requirement) {
        Field::Name { wanted: true, name } => Some(name),
        _ => None,
    })
}

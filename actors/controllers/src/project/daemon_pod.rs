//! The projection of a DaemonSet's pod: the fields that only the daemonset controller reads.

use oarlock_pods::daemon::pinned_node;
use oarlock_schema::Str;
use oarlock_schema::views::core_v1;

/// The annotation with the number of daemon pods of the node that failed one after the other before this pod. Upstream keeps the number in memory.
pub(crate) const FORMER_FAILURES: &str = "daemonset.oarlock.dev/former-failures";

/// The fields of a DaemonSet's pod that only the daemonset controller reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DaemonPod {
    /// The node to which required affinity pins the pod; empty without one.
    pub(crate) pinned: Str,
    /// The number in the annotation [`FORMER_FAILURES`]; 0 if absent or invalid.
    pub(crate) former_failures: i64,
}

impl DaemonPod {
    /// Reads the fields; `None` for a pod that no DaemonSet controls.
    pub(crate) fn read(pod: core_v1::Pod<'_>) -> Option<Box<Self>> {
        let meta = pod.metadata();
        let mut owners = meta.owner_references().iter();
        if !owners.any(|owner| owner.controller() == Some(true) && owner.kind() == "DaemonSet") {
            return None;
        }
        let failures = meta.annotations().get(FORMER_FAILURES).and_then(|text| text.parse::<i32>().ok());
        Some(Box::new(Self {
            pinned: pinned_node(pod.spec()).unwrap_or("").into(),
            former_failures: failures.filter(|number| *number >= 0).map_or(0, i64::from),
        }))
    }
}

#[cfg(test)]
mod tests {
    use oarlock_informer::Project;
    use serde_json::{Value, json};

    use super::*;
    use crate::project::PodView;

    fn read(pod: &Value) -> PodView {
        let ty = PodView::RESOURCE.find().unwrap().ty;
        PodView::project(&oarlock_client::decode(ty, pod.to_string().as_bytes()).unwrap())
    }

    fn pod(kind: &str, failures: &str, node: &str) -> Value {
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["pinned"]}]});
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        json!({
            "metadata": {"ownerReferences": owner, "annotations": {FORMER_FAILURES: failures}},
            "spec": {"nodeName": node, "affinity": {"nodeAffinity": required}},
        })
    }

    #[test]
    fn only_pods_of_daemon_sets_are_read_further() {
        assert_eq!(read(&pod("ReplicaSet", "1", "")).daemon, None);
        let daemon = read(&pod("DaemonSet", "3", "")).daemon.unwrap();
        assert_eq!(*daemon, DaemonPod { pinned: "pinned".into(), former_failures: 3 });
        for nonsense in ["", "-3", "x", "9999999999"] {
            assert_eq!(read(&pod("DaemonSet", nonsense, "")).daemon.unwrap().former_failures, 0, "{nonsense:?}");
        }
    }

    #[test]
    fn the_node_of_a_daemon_pod_is_the_bound_one_or_the_pinned_one() {
        assert_eq!(read(&pod("DaemonSet", "0", "")).target_node(), "pinned");
        assert_eq!(read(&pod("DaemonSet", "0", "bound")).target_node(), "bound");
        assert_eq!(read(&json!({})).target_node(), "");
    }
}

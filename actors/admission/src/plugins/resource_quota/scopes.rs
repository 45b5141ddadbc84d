//! The scopes of quotas: which objects a quota matches (upstream `core.ResourceQuotaScope`).

use compact_str::CompactString;
use oarlock_pods::{QosClass, qos};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{PersistentVolumeClaim, Pod, PodAffinityTerm, ResourceQuota};

use super::evaluator::Evaluator;

/// One scope requirement of a quota.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scope {
    name: CompactString,
    operator: CompactString,
    values: Vec<CompactString>,
}

/// Returns all scope requirements of a quota, each of which must hold.
pub(super) fn of(quota: &Obj) -> Vec<Scope> {
    let Some(spec) = quota.view::<ResourceQuota<'_>>().map(ResourceQuota::spec) else { return Vec::new() };
    let plain =
        spec.scopes().iter().map(|name| Scope { name: name.into(), operator: "Exists".into(), values: Vec::new() });
    let chosen = spec.scope_selector().into_iter().flat_map(|s| s.match_expressions().iter()).map(|e| Scope {
        name: e.scope_name().into(),
        operator: e.operator().into(),
        values: e.values().iter().map(CompactString::new).collect(),
    });
    plain.chain(chosen).collect()
}

impl Scope {
    /// Whether an object is in the scope; only pods and claims can be.
    pub(super) fn matches(&self, evaluator: Evaluator, object: &Obj) -> bool {
        match evaluator {
            Evaluator::Pods => object.view::<Pod<'_>>().is_some_and(|pod| self.matches_pod(pod)),
            Evaluator::Claims => {
                object.view::<PersistentVolumeClaim<'_>>().is_some_and(|claim| self.matches_claim(claim))
            }
            _ => false,
        }
    }

    fn matches_pod(&self, pod: Pod<'_>) -> bool {
        let terminating = || pod.spec().active_deadline_seconds().is_some_and(|seconds| seconds >= 0);
        match self.name.as_str() {
            "Terminating" => terminating(),
            "NotTerminating" => !terminating(),
            "BestEffort" => best_effort(pod),
            "NotBestEffort" => !best_effort(pod),
            "PriorityClass" => self.holds([pod.spec().priority_class_name()]),
            "CrossNamespacePodAffinity" => looks_into_other_namespaces(pod),
            _ => false,
        }
    }

    fn matches_claim(&self, claim: PersistentVolumeClaim<'_>) -> bool {
        let status = claim.status();
        let asked = claim.spec().volume_attributes_class_name().unwrap_or("");
        let target = status.modify_volume_status().map_or("", |s| s.target_volume_attributes_class_name());
        let current = status.current_volume_attributes_class_name().unwrap_or("");
        self.name == "VolumeAttributesClass" && self.holds([asked, target, current])
    }

    /// Whether the operator holds for the non-empty values; for several values, for any of them.
    fn holds<const N: usize>(&self, values: [&str; N]) -> bool {
        let set = || values.iter().copied().filter(|value| !value.is_empty());
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator.as_str() {
            "Exists" => set().next().is_some(),
            "DoesNotExist" => set().next().is_none(),
            "In" => set().any(listed),
            "NotIn" => set().next().is_none() || set().any(|value| !listed(value)),
            _ => false,
        }
    }
}

/// Whether the pod's QoS class is BestEffort. The stored class counts, which a resize does not change.
fn best_effort(pod: Pod<'_>) -> bool {
    qos::of(pod) == QosClass::BestEffort
}

fn looks_into_other_namespaces(pod: Pod<'_>) -> bool {
    let Some(affinity) = pod.spec().affinity() else { return false };
    let abroad = |term: PodAffinityTerm<'_>| !term.namespaces().is_empty() || term.namespace_selector().is_some();
    affinity.pod_affinity().is_some_and(|a| {
        a.required_during_scheduling_ignored_during_execution().iter().any(abroad)
            || a.preferred_during_scheduling_ignored_during_execution().iter().any(|w| abroad(w.pod_affinity_term()))
    }) || affinity.pod_anti_affinity().is_some_and(|a| {
        a.required_during_scheduling_ignored_during_execution().iter().any(abroad)
            || a.preferred_during_scheduling_ignored_during_execution().iter().any(|w| abroad(w.pod_affinity_term()))
    })
}

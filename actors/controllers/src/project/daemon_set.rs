//! The projection of DaemonSets.

use oarlock_apis::apps::daemon_set::TEMPLATE_COUNT;
use oarlock_informer::{Project, ResourceName};
use oarlock_meta::LabelSelector;
use oarlock_pods::Toleration;
use oarlock_pods::daemon::tolerated_taints;
use oarlock_pods::node_affinity::RequiredNodes;
use oarlock_schema::views::{View, apps_v1, core_v1};
use oarlock_schema::{Obj, Str};
use oarlock_workloads::Fingerprint;

use super::deployment::Amount;
use super::selector;

/// How the pods of a DaemonSet come to the current template (`spec.updateStrategy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DaemonUpdate {
    /// Somebody else deletes the pods.
    OnDelete,
    /// The controller replaces the pods.
    Rolling {
        /// The most nodes without an available pod.
        unavailable: Amount,
        /// The most nodes on which a new pod starts beside the old one.
        surge: Amount,
    },
}

impl Default for DaemonUpdate {
    fn default() -> Self {
        Self::Rolling { unavailable: Amount::Count(1), surge: Amount::Count(0) }
    }
}

/// The projection of a DaemonSet's `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DaemonSetState {
    /// `observedGeneration`.
    pub(crate) observed: i64,
    /// Nodes that are to run a pod.
    pub(crate) desired: i64,
    /// Those of them that have one.
    pub(crate) current: i64,
    /// Nodes with a pod that are not to run one.
    pub(crate) misscheduled: i64,
    /// Nodes with a ready pod.
    pub(crate) ready: i64,
    /// Nodes with a pod of the current template.
    pub(crate) updated: i64,
    /// Nodes whose pod has been ready for long enough.
    pub(crate) available: i64,
    /// Nodes that are to run a pod and have no available one.
    pub(crate) unavailable: i64,
    /// How often the name of a new revision was in use already (`collisionCount`).
    pub(crate) collisions: Option<i64>,
}

/// The projection of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DaemonSet {
    /// `spec.selector`; `None` selects nothing.
    pub(crate) selector: Option<LabelSelector>,
    /// The only node on which pods run; empty if the template names none.
    pub(crate) node: Str,
    /// The nodes that the node selector and the required affinity of the template allow.
    pub(crate) nodes: RequiredNodes,
    /// The tolerations that every pod has: the template's, and those that the controller adds.
    pub(crate) tolerations: Box<[Toleration<Str>]>,
    /// `spec.updateStrategy`.
    pub(crate) update: DaemonUpdate,
    /// `spec.minReadySeconds`.
    pub(crate) min_ready: i64,
    /// `spec.revisionHistoryLimit`; `None` keeps everything.
    pub(crate) history: Option<usize>,
    /// The number of templates so far, which the API server counts in an annotation; `None` if that is no number.
    pub(crate) template_count: Option<i64>,
    /// The data of the template's revision.
    pub(crate) data: Fingerprint,
    /// `status`.
    pub(crate) status: DaemonSetState,
}

impl DaemonSet {
    /// Whether a rolling update starts new pods beside old ones (upstream `AllowsSurge`).
    pub(crate) fn surges(&self) -> bool {
        matches!(&self.update, DaemonUpdate::Rolling { surge, .. } if surge.of(1, true) > 0)
    }
}

impl Project for DaemonSet {
    const RESOURCE: ResourceName = ResourceName::new("apps", "v1", "daemonsets");

    fn project(obj: &Obj) -> Self {
        let Some(view) = obj.view::<apps_v1::DaemonSet<'_>>() else { return Self::default() };
        let spec = view.spec();
        let pod = spec.template().spec();
        Self {
            selector: selector(spec.selector()),
            node: pod.node_name().into(),
            nodes: RequiredNodes::read(pod),
            tolerations: tolerations(pod),
            update: update(spec.update_strategy()),
            min_ready: spec.min_ready_seconds(),
            history: spec.revision_history_limit().and_then(|limit| usize::try_from(limit).ok()),
            template_count: view.metadata().annotations().get(TEMPLATE_COUNT).and_then(|count| count.parse().ok()),
            data: spec.template().node().map(Fingerprint::of_template).unwrap_or_default(),
            status: state(view.status()),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

fn tolerations(pod: core_v1::PodSpec<'_>) -> Box<[Toleration<Str>]> {
    let added = tolerated_taints(pod.host_network()).map(|(key, effect)| Toleration {
        key: key.into(),
        value: Str::default(),
        exists: true,
        effect: Some(effect),
    });
    let own = pod.tolerations().iter().filter_map(|one| Toleration::read(one, Str::from));
    own.chain(added).collect()
}

fn update(strategy: apps_v1::DaemonSetUpdateStrategy<'_>) -> DaemonUpdate {
    if strategy.type_() == "OnDelete" {
        return DaemonUpdate::OnDelete;
    }
    let rolling = strategy.rolling_update();
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable());
    let surge = rolling.and_then(|rolling| rolling.max_surge());
    let amount = |value: Option<_>| value.map_or(Amount::Count(0), Amount::read);
    DaemonUpdate::Rolling { unavailable: amount(unavailable), surge: amount(surge) }
}

fn state(status: apps_v1::DaemonSetStatus<'_>) -> DaemonSetState {
    DaemonSetState {
        observed: status.observed_generation(),
        desired: status.desired_number_scheduled(),
        current: status.current_number_scheduled(),
        misscheduled: status.number_misscheduled(),
        ready: status.number_ready(),
        updated: status.updated_number_scheduled(),
        available: status.number_available(),
        unavailable: status.number_unavailable(),
        collisions: status.collision_count(),
    }
}

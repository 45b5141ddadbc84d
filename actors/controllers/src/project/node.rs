//! Projections of nodes and of their Leases.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::Time;
use oarlock_schema::views::{coordination_v1, core_v1};
use oarlock_schema::{Obj, Str};

use super::time;

/// The annotation with the seconds for which the kubelet may cache Secrets and ConfigMaps.
pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// A condition of a node, without its heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeCondition {
    /// The condition's type.
    pub(crate) kind: Str,
    /// True, False or Unknown.
    pub(crate) status: Str,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    /// The taint's key.
    pub(crate) key: Str,
    /// The taint's value.
    pub(crate) value: Str,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub(crate) effect: Str,
    /// When the taint was added.
    pub(crate) added: Option<Time>,
}

/// The projection of a node for node health, taints and endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeView {
    /// `status.conditions`.
    pub(crate) conditions: Box<[NodeCondition]>,
    /// The heartbeat of condition Ready, a sign of life besides the Lease.
    pub(crate) heartbeat: Option<Time>,
    /// The Ready condition's last transition.
    pub(crate) transition: Option<Time>,
    /// `spec.taints`.
    pub(crate) taints: Box<[Taint]>,
    /// `spec.unschedulable`.
    pub(crate) unschedulable: bool,
    /// The annotation [`TTL`], if it is a number.
    pub(crate) ttl: Option<i64>,
}

impl NodeView {
    /// Returns the status of a condition; `None` if the node has none of this type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&str> {
        self.conditions.iter().find(|condition| condition.kind == kind).map(|condition| condition.status.as_str())
    }

    /// Whether condition Ready is True.
    pub(crate) fn ready(&self) -> bool {
        self.condition("Ready") == Some("True")
    }
}

impl Project for NodeView {
    const RESOURCE: ResourceName = ResourceName::core("nodes");

    fn project(obj: &Obj) -> Self {
        let Some(node) = obj.view::<core_v1::Node<'_>>() else { return Self::default() };
        let conditions = node.status().conditions();
        let ready = conditions.iter().find(|condition| condition.type_() == "Ready");
        Self {
            conditions: conditions
                .iter()
                .map(|condition| NodeCondition { kind: condition.type_().into(), status: condition.status().into() })
                .collect(),
            heartbeat: ready.and_then(|condition| time(condition.last_heartbeat_time())),
            transition: ready.and_then(|condition| time(condition.last_transition_time())),
            taints: taints(&node),
            unschedulable: node.spec().unschedulable(),
            ttl: node.metadata().annotations().get(TTL).and_then(|seconds| seconds.parse().ok()),
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

/// Reads `spec.taints` of a node.
pub(super) fn taints(node: &core_v1::Node<'_>) -> Box<[Taint]> {
    let taints = node.spec().taints();
    let taint = |taint: core_v1::Taint<'_>| Taint {
        key: taint.key().into(),
        value: taint.value().into(),
        effect: taint.effect().into(),
        added: taint.time_added().and_then(time),
    };
    taints.iter().map(taint).collect()
}

/// The projection of a node's Lease, of which only renewals matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseView {
    /// `spec.renewTime`, as text.
    pub(crate) renewed: Str,
}

impl Project for LeaseView {
    const RESOURCE: ResourceName = ResourceName::new("coordination.k8s.io", "v1", "leases");

    fn project(obj: &Obj) -> Self {
        let lease = obj.view::<coordination_v1::Lease<'_>>();
        Self { renewed: lease.and_then(|lease| lease.spec().renew_time()).unwrap_or("").into() }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

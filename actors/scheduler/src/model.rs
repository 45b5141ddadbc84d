//! The scheduler's model of pods and nodes: compact projections of the API objects.
//!
//! [`PodSpec`] holds exactly the fields that placement depends on, so that pods with equal specs form a class; fields that
//! differ between the pods of one class (name, uid, priority, age) are in [`PodInfo`].

use std::cmp::Reverse;
use std::sync::Arc;

pub(crate) use oarlock_pods::Effect;
pub(crate) use oarlock_pods::toleration::tolerated;
use smallvec::SmallVec;

use crate::intern::{Res, Sym};
use crate::labels::{Labels, Requirement, Selector};

/// A pod's uid as the API spells it: the key of every table of pods.
pub(crate) type Uid = Arc<str>;

/// Requested amounts, sorted by resource: milli-cores for cpu, else bytes or counts. Zero amounts are left out.
pub(crate) type Requests = SmallVec<[(Res, i64); 4]>;

/// Assumed request of a container without a cpu request, in milli-cores (upstream: `DefaultMilliCPURequest`).
pub(crate) const UNSET_CPU: i64 = 100;
/// Assumed request of a container without a memory request, in bytes (upstream: `DefaultMemoryRequest`).
pub(crate) const UNSET_MEMORY: i64 = 200 * 1024 * 1024;

/// The fields of a pod that the scheduler reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodInfo {
    /// `metadata.uid`.
    pub(crate) uid: Uid,
    /// `metadata.name`.
    pub(crate) name: Arc<str>,
    /// The fields that placement depends on, shared by the pods of a class.
    pub(crate) spec: Arc<PodSpec>,
    /// `spec.priority`.
    pub(crate) priority: i32,
    /// Names of `spec.schedulingGates`.
    pub(crate) gates: Box<[Arc<str>]>,
    /// `spec.nodeName` once set.
    pub(crate) node: Option<Sym>,
    /// `status.nominatedNodeName`.
    pub(crate) nominated: Option<Sym>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub(crate) terminating: bool,
    /// Whether the condition `DisruptionTarget` says that the scheduler preempts the pod.
    pub(crate) preempted: bool,
    /// `status.startTime` in seconds since 1970; `i64::MAX`, later than any time, while unset.
    pub(crate) started: i64,
    /// Whether `spec.preemptionPolicy` is `Never`.
    pub(crate) never_preempts: bool,
    /// `spec.schedulerName`.
    pub(crate) scheduler: Sym,
    /// `metadata.resourceVersion`, to tell a real update from a repeated one.
    pub(crate) version: u64,
    /// `metadata.generation`, written as the condition's `observedGeneration`.
    pub(crate) generation: i64,
}

impl PodInfo {
    /// Returns the sort key by which preemption spares pods: higher priority first, then earlier start (upstream: `MoreImportantPod`), then uid.
    pub(crate) fn importance(&self) -> (Reverse<i32>, i64, &str) {
        (Reverse(self.priority), self.started, &self.uid)
    }
}

/// The fields of a pod that placement depends on. Two pods with equal specs are interchangeable for every plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodSpec {
    /// `metadata.namespace`.
    pub(crate) namespace: Sym,
    /// `metadata.labels`.
    pub(crate) labels: Labels,
    /// Requests: the sum over containers, or the maximum of the init containers if larger, plus overhead.
    pub(crate) requests: Requests,
    /// Requested milli-cores and bytes, with the defaults for containers without requests.
    pub(crate) nonzero: [i64; 2],
    /// `spec.nodeName` of a pod that is asked to be placed on one node by name.
    pub(crate) node_name: Option<Sym>,
    /// `spec.nodeSelector`.
    pub(crate) node_selector: Box<[Requirement]>,
    /// `nodeAffinity.required…`; `None` when the field is absent, an empty list matches no node.
    pub(crate) node_required: Option<Box<[NodeTerm]>>,
    /// `nodeAffinity.preferred…`, terms of weight 0 and empty ones left out.
    pub(crate) node_preferred: Box<[(i64, NodeTerm)]>,
    /// `spec.tolerations` without those that tolerate nothing.
    pub(crate) tolerations: Box<[Toleration]>,
    /// Host ports of containers and sidecars.
    pub(crate) ports: Box<[HostPort]>,
    /// `podAffinity.required…`.
    pub(crate) affinity: Box<[PodTerm]>,
    /// `podAntiAffinity.required…`.
    pub(crate) anti_affinity: Box<[PodTerm]>,
    /// `podAffinity.preferred…`, and `podAntiAffinity.preferred…` with negative weights.
    pub(crate) preferred: Box<[(i64, PodTerm)]>,
    /// `spec.topologySpreadConstraints`.
    pub(crate) spread: Box<[Spread]>,
    /// Image names of all containers, init containers included, with their tags.
    pub(crate) images: Box<[Sym]>,
    /// The controlling ReplicaSet, StatefulSet or ReplicationController.
    pub(crate) owner: Option<Owner>,
    /// The claims of volumes and devices that the pod names; `None` for none.
    pub(crate) claims: Option<Arc<[Claimed]>>,
}

/// A claim that a pod names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claimed {
    /// The kind of claim.
    pub(crate) kind: ClaimKind,
    /// The claim's name, in the pod's namespace; empty for a claim that is not created yet.
    pub(crate) name: Sym,
    /// The pod's name and uid, if the claim must have been created for this pod.
    pub(crate) pod: Option<(Sym, Uid)>,
}

/// Kinds of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClaimKind {
    /// A PersistentVolumeClaim.
    Volume,
    /// The PersistentVolumeClaim of a generic ephemeral volume.
    Ephemeral,
    /// A ResourceClaim.
    Device,
    /// A ResourceClaim that a controller has not created from its template yet.
    DeviceToCome,
}

impl PodSpec {
    /// Returns the requested amount of one resource.
    pub(crate) fn request(&self, resource: Res) -> i64 {
        self.requests.iter().find(|entry| entry.0 == resource).map_or(0, |entry| entry.1)
    }
}

/// A controlling owner whose selector counts as the pod's default spread selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// The kind of owner.
    pub(crate) kind: OwnerKind,
    /// The owner's name, in the pod's namespace.
    pub(crate) name: Sym,
}

/// Kinds of owners that upstream derives a default spread selector from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKind {
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// v1 ReplicationController.
    ReplicationController,
}

/// One term of a node selector: all parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeTerm {
    /// `matchExpressions`.
    pub(crate) labels: Box<[Requirement]>,
    /// `matchFields` on `metadata.name`.
    pub(crate) fields: Box<[NameField]>,
    /// A term upstream cannot parse, or an empty one: matches no node.
    pub(crate) never: bool,
}

/// A requirement on the node's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameField {
    /// `In` or `NotIn`.
    pub(crate) wanted: bool,
    /// The name.
    pub(crate) name: Sym,
}

/// A node's taint.
pub(crate) type Taint = oarlock_pods::Taint<Sym>;

/// A pod's toleration.
pub(crate) type Toleration = oarlock_pods::Toleration<Sym>;

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port on the node's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostPort {
    /// `hostIP`, [`Sym::ANY_ADDRESS`] when unset.
    pub(crate) address: Sym,
    /// Protocol.
    pub(crate) protocol: Protocol,
    /// Port, never 0.
    pub(crate) port: u16,
}

impl HostPort {
    /// Whether two ports cannot be bound on one node.
    pub(crate) fn clashes(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.port == other.port
            && (self.address == other.address || self.address == Sym::ANY_ADDRESS || other.address == Sym::ANY_ADDRESS)
    }
}

/// One term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodTerm {
    /// `topologyKey`.
    pub(crate) topology: Sym,
    /// Selects the pods that the term applies to.
    pub(crate) matcher: Matcher,
}

/// Selects pods by labels and namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Matcher {
    /// Selector over pod labels.
    pub(crate) selector: Selector,
    /// Named namespaces, sorted; the pod's own namespace if the term names none and has no namespace selector, as upstream.
    pub(crate) namespaces: Box<[Sym]>,
    /// Selector over namespace labels; `Nothing` when absent.
    pub(crate) namespace_selector: Selector,
}

/// One topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spread {
    /// `topologyKey`.
    pub(crate) topology: Sym,
    /// `maxSkew`.
    pub(crate) max_skew: i32,
    /// Whether `whenUnsatisfiable` is `DoNotSchedule` (else `ScheduleAnyway`).
    pub(crate) hard: bool,
    /// `labelSelector` merged with `matchLabelKeys`.
    pub(crate) selector: Selector,
    /// `minDomains`, 1 when unset.
    pub(crate) min_domains: i32,
    /// `nodeAffinityPolicy: Honor`, the default.
    pub(crate) honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`, not the default.
    pub(crate) honor_taints: bool,
}

/// The fields of a node that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeInfo {
    /// `metadata.name`.
    pub(crate) name: Sym,
    /// `metadata.labels`.
    pub(crate) labels: Labels,
    /// `spec.taints`.
    pub(crate) taints: Box<[Taint]>,
    /// `spec.unschedulable`.
    pub(crate) unschedulable: bool,
    /// `status.allocatable` without `pods`.
    pub(crate) allocatable: Requests,
    /// `status.allocatable.pods`.
    pub(crate) pods: i64,
    /// Image names with their size in bytes.
    pub(crate) images: Box<[(Sym, i64)]>,
}

impl NodeInfo {
    /// Returns the allocatable amount of one resource.
    pub(crate) fn allocatable(&self, resource: Res) -> i64 {
        self.allocatable.iter().find(|entry| entry.0 == resource).map_or(0, |entry| entry.1)
    }
}

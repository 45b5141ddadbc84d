//! Projection of a pod.

use std::sync::Arc;

use oarlock_informer::{Fields, MANAGED_FIELDS_PATH, Project, ResourceName};
use oarlock_meta::Time;
use oarlock_pods::{conditions, sidecar, termination};
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::{Container, Pod};
use oarlock_schema::views::meta_v1::ObjectMeta;
use parking_lot::Mutex;

use crate::intern::{Interner, Sym};
use crate::model::{HostPort, Owner, OwnerKind, PodInfo, PodSpec, Protocol, Toleration};

use super::{claims, requests, same, terms};

/// Type of the condition of a pod that is being evicted.
pub(crate) const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Reason of that condition when the scheduler preempts the pod.
pub(crate) const PREEMPTED: &str = "PreemptionByScheduler";

/// The `PodScheduled` condition of a pending pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScheduledCondition {
    /// `status`.
    pub(crate) status: String,
    /// `reason`.
    pub(crate) reason: String,
    /// `message`.
    pub(crate) message: String,
    /// `lastTransitionTime`.
    pub(crate) since: String,
    /// `observedGeneration`.
    pub(crate) generation: i64,
}

/// The parts of a pod that the scheduler reads.
#[derive(Debug)]
pub(crate) struct PodView {
    /// The pod.
    pub(crate) info: Arc<PodInfo>,
    /// Whether the pod has ended and uses no resources any more.
    pub(crate) ended: bool,
    /// The `PodScheduled` condition, while the pod has no node.
    pub(crate) scheduled_condition: Option<Box<ScheduledCondition>>,
}

/// Fields that are not decoded: they make up most of a pod's size and do not affect placement.
const UNREAD: &[&[&str]] = &[
    MANAGED_FIELDS_PATH,
    &["metadata", "annotations"],
    &["spec", "ephemeralContainers"],
    &["spec", "volumes", "configMap"],
    &["spec", "volumes", "csi"],
    &["spec", "volumes", "downwardAPI"],
    &["spec", "volumes", "projected"],
    &["spec", "volumes", "secret"],
    &["status", "ephemeralContainerStatuses"],
    &["spec", "containers", "args"],
    &["spec", "containers", "command"],
    &["spec", "containers", "env"],
    &["spec", "containers", "envFrom"],
    &["spec", "containers", "lifecycle"],
    &["spec", "containers", "livenessProbe"],
    &["spec", "containers", "readinessProbe"],
    &["spec", "containers", "securityContext"],
    &["spec", "containers", "startupProbe"],
    &["spec", "containers", "volumeMounts"],
    &["spec", "initContainers", "args"],
    &["spec", "initContainers", "command"],
    &["spec", "initContainers", "env"],
    &["spec", "initContainers", "envFrom"],
    &["spec", "initContainers", "lifecycle"],
    &["spec", "initContainers", "livenessProbe"],
    &["spec", "initContainers", "readinessProbe"],
    &["spec", "initContainers", "securityContext"],
    &["spec", "initContainers", "startupProbe"],
    &["spec", "initContainers", "volumeMounts"],
];

impl Project for PodView {
    const RESOURCE: ResourceName = ResourceName::core("pods");
    // Every process reads every pod, so the cost of decoding a pod matters.
    const FIELDS: Fields = Fields::But(UNREAD);

    fn project(obj: &Obj) -> Self {
        let names = Interner::process();
        let pod: Pod<'_> = obj.view().unwrap_or_else(|| Pod::from_option(None));
        let ended = termination::has_ended(pod.status());
        let scheduled_condition = if pod.spec().node_name().is_empty() { scheduled_condition(pod) } else { None };
        Self { info: Arc::new(info(pod, &names)), ended, scheduled_condition }
    }

    fn same(&self, next: &Self) -> bool {
        same::same(&self.info, &next.info)
            && self.ended == next.ended
            && self.scheduled_condition == next.scheduled_condition
    }
}

fn scheduled_condition(pod: Pod<'_>) -> Option<Box<ScheduledCondition>> {
    let condition = conditions::find(pod.status(), "PodScheduled")?;
    Some(Box::new(ScheduledCondition {
        status: condition.status().to_owned(),
        reason: condition.reason().to_owned(),
        message: condition.message().to_owned(),
        since: condition.last_transition_time().to_owned(),
        generation: condition.observed_generation(),
    }))
}

fn info(pod: Pod<'_>, names: &Interner) -> PodInfo {
    let (meta, spec) = (pod.metadata(), pod.spec());
    let symbol = |text: &str| (!text.is_empty()).then(|| names.intern(text));
    PodInfo {
        uid: Arc::from(meta.uid()),
        name: Arc::from(meta.name()),
        spec: shared(pod_spec(pod, names)),
        priority: i32::try_from(spec.priority().unwrap_or(0)).unwrap_or(0),
        gates: spec.scheduling_gates().iter().map(|gate| Arc::from(gate.name())).collect(),
        node: symbol(spec.node_name()),
        nominated: symbol(pod.status().nominated_node_name()),
        terminating: meta.deletion_timestamp().is_some(),
        preempted: preempted(pod),
        started: pod.status().start_time().and_then(|time| Time::parse(time).ok()).map_or(i64::MAX, Time::unix),
        never_preempts: spec.preemption_policy() == Some("Never"),
        scheduler: names.intern(spec.scheduler_name()),
        version: meta.resource_version().parse().unwrap_or(0),
        generation: meta.generation(),
    }
}

/// Whether the pod is being preempted by the scheduler (upstream `podTerminatingByPreemption`).
fn preempted(pod: Pod<'_>) -> bool {
    let target = conditions::find(pod.status(), DISRUPTION_TARGET);
    target.is_some_and(|condition| condition.status() == "True" && condition.reason() == PREEMPTED)
}

fn pod_spec(pod: Pod<'_>, names: &Interner) -> PodSpec {
    let (meta, spec) = (pod.metadata(), pod.spec());
    let namespace = names.intern(meta.namespace());
    let labels = terms::labels(meta.labels(), names);
    let (requests, nonzero) = requests::of(pod, names);
    let mut out = PodSpec {
        namespace,
        requests,
        nonzero,
        node_selector: terms::equalities(spec.node_selector(), names).into(),
        tolerations: spec
            .tolerations()
            .iter()
            .filter_map(|toleration| Toleration::read(toleration, |text| names.intern(text)))
            .collect(),
        ports: ports(pod, names),
        spread: spec.topology_spread_constraints().iter().map(|rule| terms::spread(rule, &labels, names)).collect(),
        images: images(pod, names),
        owner: owner(meta, names),
        claims: claims::claimed(pod, names),
        ..PodSpec::default()
    };
    if let Some(affinity) = spec.affinity() {
        if let Some(nodes) = affinity.node_affinity() {
            out.node_required = nodes.required_during_scheduling_ignored_during_execution().map(|selector| {
                selector.node_selector_terms().iter().map(|term| terms::node_term(term, names)).collect()
            });
            let preferred = nodes.preferred_during_scheduling_ignored_during_execution();
            out.node_preferred = preferred
                .iter()
                .map(|term| (term.weight(), terms::node_term(term.preference(), names)))
                .filter(|(weight, term)| *weight != 0 && !term.never)
                .collect();
        }
        let term = |term| terms::pod_term(term, namespace, names);
        let mut preferred = Vec::new();
        if let Some(pods) = affinity.pod_affinity() {
            out.affinity = pods.required_during_scheduling_ignored_during_execution().iter().map(term).collect();
            let terms = pods.preferred_during_scheduling_ignored_during_execution();
            preferred.extend(terms.iter().map(|weighted| (weighted.weight(), term(weighted.pod_affinity_term()))));
        }
        if let Some(pods) = affinity.pod_anti_affinity() {
            out.anti_affinity = pods.required_during_scheduling_ignored_during_execution().iter().map(term).collect();
            let terms = pods.preferred_during_scheduling_ignored_during_execution();
            preferred.extend(terms.iter().map(|weighted| (-weighted.weight(), term(weighted.pod_affinity_term()))));
        }
        out.preferred = preferred.into();
    }
    out.labels = labels;
    out
}

fn ports(pod: Pod<'_>, names: &Interner) -> Box<[HostPort]> {
    let mut ports: Vec<HostPort> = sidecar::long_running(pod.spec())
        .flat_map(|container| container.ports().iter())
        .filter_map(|port| {
            let number = u16::try_from(port.host_port()).ok().filter(|number| *number > 0)?;
            let address = if port.host_ip().is_empty() { Sym::ANY_ADDRESS } else { names.intern(port.host_ip()) };
            let protocol = match port.protocol() {
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                _ => Protocol::Tcp,
            };
            Some(HostPort { address, protocol, port: number })
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports.into()
}

/// Returns a container's image name with its tag (upstream: `normalizedImageName`).
fn image(container: Container<'_>, names: &Interner) -> Sym {
    let image = container.image();
    let tagged = image.rfind(':').is_some_and(|colon| image.rfind('/').is_none_or(|slash| slash < colon));
    if tagged { names.intern(image) } else { names.intern(&format!("{image}:latest")) }
}

fn images(pod: Pod<'_>, names: &Interner) -> Box<[Sym]> {
    let containers = pod.spec().init_containers().iter().chain(pod.spec().containers().iter());
    containers.map(|container| image(container, names)).collect()
}

fn owner(meta: ObjectMeta<'_>, names: &Interner) -> Option<Owner> {
    let owner = meta.owner_references().iter().find(|owner| owner.controller() == Some(true))?;
    let kind = match (owner.api_version(), owner.kind()) {
        ("apps/v1", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => OwnerKind::StatefulSet,
        ("v1", "ReplicationController") => OwnerKind::ReplicationController,
        _ => return None,
    };
    Some(Owner { kind, name: names.intern(owner.name()) })
}

const RECENT_SPECS_CAPACITY: usize = 1024;
static RECENT_SPECS: Mutex<Vec<Option<Arc<PodSpec>>>> = Mutex::new(Vec::new());

/// Returns the spec of a recently projected pod if it is equal, so that the pods of a burst share one spec.
fn shared(spec: PodSpec) -> Arc<PodSpec> {
    use std::hash::BuildHasher;
    let at = foldhash::fast::FixedState::default().hash_one(&spec) as usize % RECENT_SPECS_CAPACITY;
    let mut recent = RECENT_SPECS.lock();
    if recent.is_empty() {
        recent.resize(RECENT_SPECS_CAPACITY, None);
    }
    let Some(slot) = recent.get_mut(at) else { return Arc::new(spec) };
    match slot {
        Some(known) if **known == spec => Arc::clone(known),
        slot => Arc::clone(slot.insert(Arc::new(spec))),
    }
}

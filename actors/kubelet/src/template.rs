//! The part of a pod that a kubelet reads. Pods of one template share it, so a thousand equal pods need its memory once.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::Quantity;
use oarlock_pods::{Accounting, RequirementKind, Sum, conditions, sidecar};
use oarlock_schema::views::core_v1::{Container, Pod};
use oarlock_schema::{Obj, Str};
use parking_lot::Mutex;

use crate::affinity::Constraints;
use crate::recorded_status::RecordedStatus;

/// Restart policy of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestartPolicy {
    /// Restart after any exit.
    Always,
    /// Restart after an exit code other than 0.
    OnFailure,
    /// Never restart.
    Never,
}

/// Pull policy of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullPolicy {
    /// Before each start.
    Always,
    /// Pull when the image is not present.
    IfNotPresent,
    /// Never.
    Never,
}

/// One container of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerSpec {
    /// Name of the container.
    pub name: Str,
    /// Name of the image as written in the spec.
    pub image: Str,
    /// Pull policy.
    pub pull: PullPolicy,
    /// Whether this is an init container that runs as long as the pod (restartPolicy `Always`).
    pub sidecar: bool,
    /// Entry point; empty for the image's own.
    pub command: Box<[Str]>,
    /// Arguments; empty for the image's own.
    pub args: Box<[Str]>,
    /// Seconds until the first readiness or startup probe, if there is one.
    pub first_probe: Option<u32>,
    /// Whether the container has a startup probe.
    pub startup_probe: bool,
    /// Whether the container has a readiness probe.
    pub readiness_probe: bool,
}

/// Host port of a pod: protocol, address (empty for all) and number.
pub(crate) type HostPort = (Str, Str, u16);

/// Settings shared by all pods of one template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// Init containers in order, sidecars among them.
    pub init: Box<[Arc<ContainerSpec>]>,
    /// Containers in order.
    pub main: Box<[Arc<ContainerSpec>]>,
    /// Restart policy.
    pub restart: RestartPolicy,
    /// Grace period in seconds.
    pub grace: i64,
    /// `activeDeadlineSeconds`.
    pub deadline: Option<i64>,
    /// Whether pods use the node's network.
    pub host_network: bool,
    /// Annotations except kubectl's last-applied configuration, sorted by key.
    pub annotations: Arc<[(Str, Str)]>,
    /// Requests of the pod: milli-cores of `cpu`, whole units of every other resource.
    pub(crate) requests: Box<[(Str, i64)]>,
    pub(crate) ports: Box<[HostPort]>,
    /// Requirements on the node.
    pub(crate) constraints: Constraints,
}

impl Template {
    /// Returns the value of an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let at = self.annotations.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        self.annotations.get(at).map(|(_, value)| value.as_str())
    }
}

/// The part of a pod that a kubelet reads.
#[derive(Debug)]
pub(crate) struct PodView {
    pub(crate) template: Arc<Template>,
    /// `metadata.deletionGracePeriodSeconds`.
    pub(crate) deletion_grace: Option<i64>,
    /// Message about failed readiness gates; `None` when all hold, or there are none.
    pub(crate) gates: Option<Box<str>>,
    /// Unix second of the pod's assignment to its node; 0 if not recorded.
    pub(crate) scheduled: i64,
    /// Status recorded in the API; taken by its first reader.
    pub(crate) seen: Mutex<Option<Box<RecordedStatus>>>,
    /// The object itself; `None` on simulated nodes, which do not need it.
    pub(crate) whole: Option<Arc<Obj>>,
}

impl PodView {
    /// Projects a pod like [`Project::project`] and keeps the object, for nodes on real machines.
    pub(crate) fn whole(obj: &Obj) -> Self {
        Self { whole: Some(Arc::new(obj.clone())), ..Self::project(obj) }
    }
}

impl Project for PodView {
    const RESOURCE: ResourceName = ResourceName::core("pods");

    fn project(obj: &Obj) -> Self {
        let pod: Pod<'_> = obj.view().unwrap_or_else(|| Pod::from_option(None));
        Self {
            template: shared(template(pod)),
            deletion_grace: pod.metadata().deletion_grace_period_seconds(),
            gates: gates(pod),
            scheduled: crate::recorded_status::scheduled(pod),
            seen: Mutex::new(RecordedStatus::read(pod).map(Box::new)),
            whole: None,
        }
    }
}

fn template(pod: Pod<'_>) -> Template {
    let spec = pod.spec();
    let annotations = pod.metadata().annotations();
    Template {
        init: spec.init_containers().iter().map(|c| Arc::new(container(c))).collect(),
        main: spec.containers().iter().map(|c| Arc::new(container(c))).collect(),
        restart: match spec.restart_policy() {
            "Never" => RestartPolicy::Never,
            "OnFailure" => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        },
        grace: spec.termination_grace_period_seconds().unwrap_or(30),
        deadline: spec.active_deadline_seconds(),
        host_network: spec.host_network(),
        annotations: annotations
            .iter()
            .filter(|(key, _)| *key != "kubectl.kubernetes.io/last-applied-configuration")
            .map(|(key, value)| (Str::from(key), Str::from(value)))
            .collect(),
        requests: requests(pod),
        ports: ports(pod),
        constraints: Constraints::read(spec),
    }
}

fn container(container: Container<'_>) -> ContainerSpec {
    let (ready, startup) = (container.readiness_probe(), container.startup_probe());
    let first = [ready, startup].into_iter().flatten().map(|probe| probe.initial_delay_seconds()).max();
    ContainerSpec {
        name: container.name().into(),
        image: container.image().into(),
        pull: match container.image_pull_policy() {
            "Always" => PullPolicy::Always,
            "Never" => PullPolicy::Never,
            _ => PullPolicy::IfNotPresent,
        },
        sidecar: sidecar::is_sidecar(container),
        command: container.command().iter().map(Str::from).collect(),
        args: container.args().iter().map(Str::from).collect(),
        first_probe: first.map(|seconds| u32::try_from(seconds).unwrap_or(0)),
        startup_probe: startup.is_some(),
        readiness_probe: ready.is_some(),
    }
}

/// Returns the message about failed readiness gates (upstream's `GeneratePodReadyCondition`).
fn gates(pod: Pod<'_>) -> Option<Box<str>> {
    let mut messages = Vec::new();
    for gate in pod.spec().readiness_gates().iter() {
        let kind = gate.condition_type();
        match conditions::find(pod.status(), kind) {
            None => messages.push(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist.")),
            Some(found) if found.status() != "True" => messages
                .push(format!("the status of pod readiness gate \"{kind}\" is not \"True\", but {}", found.status())),
            Some(_) => {}
        }
    }
    (!messages.is_empty()).then(|| messages.join(", ").into())
}

/// Sums requests in the units of [`Template::requests`].
struct Units;

impl Accounting for Units {
    type List = BTreeMap<Str, i64>;

    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Self::List {
        let amount = |(name, text): (&str, &str)| {
            let quantity = Quantity::parse(text).ok()?;
            Some((Str::from(name), if name == "cpu" { quantity.milli_value() } else { quantity.value() }))
        };
        amounts.filter_map(amount).collect()
    }
}

fn requests(pod: Pod<'_>) -> Box<[(Str, i64)]> {
    let sum = Sum::new(pod.spec(), RequirementKind::Requests).total(&Units);
    sum.into_iter().filter(|(_, amount)| *amount != 0).collect()
}

fn ports(pod: Pod<'_>) -> Box<[HostPort]> {
    let ports = sidecar::long_running(pod.spec()).flat_map(|container| container.ports().iter());
    let host_port = |port: oarlock_schema::views::core_v1::ContainerPort<'_>| {
        let number = u16::try_from(port.host_port()).ok().filter(|number| *number > 0)?;
        let address = if matches!(port.host_ip(), "0.0.0.0" | "::") { "" } else { port.host_ip() };
        let protocol = if port.protocol().is_empty() { "TCP" } else { port.protocol() };
        Some((Str::from(protocol), Str::from(address), number))
    };
    ports.filter_map(host_port).collect()
}

const MAX_RECENT_TEMPLATES: usize = 1024;
static RECENT_TEMPLATES: Mutex<Vec<Option<Arc<Template>>>> = Mutex::new(Vec::new());

/// Returns a recently projected template equal to this one, or this one.
fn shared(template: Template) -> Arc<Template> {
    use std::hash::BuildHasher;
    let hash = foldhash::fast::FixedState::default().hash_one(&template);
    let at = usize::try_from(hash % MAX_RECENT_TEMPLATES as u64).unwrap_or(0);
    let mut recent = RECENT_TEMPLATES.lock();
    if recent.is_empty() {
        recent.resize(MAX_RECENT_TEMPLATES, None);
    }
    let Some(slot) = recent.get_mut(at) else { return Arc::new(template) };
    match slot {
        Some(known) if **known == template => Arc::clone(known),
        slot => Arc::clone(slot.insert(Arc::new(template))),
    }
}

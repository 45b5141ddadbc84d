//! Computes the requests and limits of a whole pod (upstream `k8s.io/component-helpers/resource`; KEP-753 sidecars, KEP-1287 resize,
//! KEP-2837 pod-level resources).
//!
//! Containers run at once and are summed. Init containers run one by one, each beside the sidecars started before it, so the largest of these moments
//! counts; sidecars are also added to the containers. Pod-level resources replace the result, and overhead is added.

use std::collections::HashMap;

use oarlock_schema::views::core_v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use oarlock_schema::views::{List, Map};
use oarlock_seeded_bug::seeded_bug;

use crate::conditions;
use crate::pod_level;
use crate::resource_list::ResourceList;
use crate::sidecar::is_sidecar;

/// Requests or limits: one of the two halves of resource requirements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequirementKind {
    /// The amounts reserved for a container or pod.
    Requests,
    /// The most that a container or pod may use.
    Limits,
}

impl RequirementKind {
    /// Returns the field of resource requirements that holds this half.
    #[must_use]
    pub fn of(self, requirements: ResourceRequirements<'_>) -> Map<'_, &str> {
        match self {
            Self::Requests => requirements.requests(),
            Self::Limits => requirements.limits(),
        }
    }
}

/// The parsing and storage of a caller's amounts.
pub trait Accounting {
    /// The caller's list of amounts.
    type List: ResourceList;

    /// Reads names and quantities of one field. The API has validated the quantities; an invalid text counts as zero.
    fn read<'a>(&self, amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Self::List;

    /// Adds a caller's defaults to the amounts of one container where the container has none (upstream `NonMissingContainerRequests`).
    fn fill_in(&self, _container: &mut Self::List) {}
}

/// The sum of requests or limits over the containers of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a> {
    spec: PodSpec<'a>,
    status: Option<PodStatus<'a>>,
    side: RequirementKind,
}

impl<'a> Sum<'a> {
    /// Makes the sum of one half over the pod's specification.
    #[must_use]
    pub fn new(spec: PodSpec<'a>, side: RequirementKind) -> Self {
        Self { spec, status: None, side }
    }

    /// Counts containers and sidecars with the amounts that the kubelet has allocated and actuated, if larger than the specification. If the pod's resize is
    /// infeasible, the specification does not count at all (upstream `UseStatusResources`).
    #[must_use]
    pub fn with_status(self, status: PodStatus<'a>) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Returns the total of the pod with overhead (upstream `PodRequests`, `PodLimits`). Overhead is no limit by itself and only raises limits above zero.
    pub fn total<A: Accounting>(self, by: &A) -> A::List {
        let mut sum = self.without_overhead(by);
        let overhead = by.read(self.spec.overhead().iter());
        match self.side {
            RequirementKind::Requests => sum.add(&overhead),
            RequirementKind::Limits => sum.add_where_some(&overhead),
        }
        sum
    }

    /// Returns the total of the pod without overhead: pod-level amounts take precedence over the sum of the containers.
    pub fn without_overhead<A: Accounting>(self, by: &A) -> A::List {
        let mut sum = self.of_containers(by);
        if let Some(own) = self.spec.resources() {
            sum.replace(by.read(self.side.of(own).iter().filter(|(name, _)| pod_level::supports(name))));
        }
        sum
    }

    /// Returns the sum of the containers (upstream `AggregateContainerRequests`, `AggregateContainerLimits`).
    pub fn of_containers<A: Accounting>(self, by: &A) -> A::List {
        let infeasible = self.status.is_some_and(resize_is_infeasible);
        let statuses = Statuses::of(self.status.map(PodStatus::container_statuses));
        let mut sum = A::List::default();
        for container in self.spec.containers().iter() {
            sum.add(&self.effective(container, statuses.named(container.name()), infeasible, by));
        }
        let statuses = Statuses::of(self.status.map(PodStatus::init_container_statuses));
        let (mut sidecars, mut peak) = (A::List::default(), A::List::default());
        for container in self.spec.init_containers().iter() {
            if is_sidecar(container) && !seeded_bug!("sidecar_ends_before_containers_start") {
                let own = self.effective(container, statuses.named(container.name()), infeasible, by);
                sum.add(&own);
                sidecars.add(&own);
                continue;
            }
            // Init containers that are no sidecars cannot be resized, so their statuses add nothing. Sidecars are added only for resources that
            // the container requests, which bounds the work: for all others no moment exceeds the sum, of which every sidecar is a part.
            let mut moment = self.effective(container, None, infeasible, by);
            moment.add_where_some(&sidecars);
            peak.raise(&moment);
        }
        sum.raise(&peak);
        sum
    }

    fn effective<A: Accounting>(
        self,
        container: Container<'a>,
        status: Option<ContainerStatus<'a>>,
        infeasible: bool,
        by: &A,
    ) -> A::List {
        let wanted = || by.read(self.side.of(container.resources()).iter());
        let mut amounts = match status.and_then(|status| Some((status, status.resources()?))) {
            None => wanted(),
            Some((status, actuated)) => {
                let mut amounts = if infeasible { A::List::default() } else { wanted() };
                amounts.raise(&by.read(self.side.of(actuated).iter()));
                if self.side == RequirementKind::Requests {
                    amounts.raise(&by.read(status.allocated_resources().iter()));
                }
                amounts
            }
        };
        by.fill_in(&mut amounts);
        amounts
    }
}

/// Whether the kubelet reported that the node can never grant the requested resize, so that nothing is reserved for the resize (upstream
/// `IsPodResizeInfeasible`).
fn resize_is_infeasible(status: PodStatus<'_>) -> bool {
    let pending = conditions::find(status, "PodResizePending");
    pending.is_some_and(|pending| pending.reason() == "Infeasible") && !seeded_bug!("infeasible_resize_is_reserved")
}

/// Statuses of one list of containers, by name. Of several with one name the last counts, as in upstream's map.
enum Statuses<'a> {
    Few(List<'a, ContainerStatus<'a>>),
    Many(HashMap<&'a str, ContainerStatus<'a>>),
}

impl<'a> Statuses<'a> {
    /// The longest list that is searched linearly, which allocates nothing; the names of longer lists are hashed, so that a lookup stays constant.
    const MAX_SEARCHED: usize = 16;

    fn of(list: Option<List<'a, ContainerStatus<'a>>>) -> Self {
        match list {
            Some(list) if list.len() > Self::MAX_SEARCHED => {
                Self::Many(list.iter().map(|status| (status.name(), status)).collect())
            }
            Some(list) => Self::Few(list),
            None => Self::Many(HashMap::new()),
        }
    }

    fn named(&self, name: &str) -> Option<ContainerStatus<'a>> {
        match self {
            Self::Few(list) => list.iter().rfind(|status| status.name() == name),
            Self::Many(by_name) => by_name.get(name).copied(),
        }
    }
}

//! The projection of ReplicaSets.

use oarlock_informer::{Project, ResourceName};
use oarlock_meta::LabelSelector;
use oarlock_schema::views::{View, apps_v1};
use oarlock_schema::{Obj, Str};

use super::deployment::Condition;
use super::template::template;
use super::{Digest, selector};

/// The projection of a ReplicaSet's `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaSetState {
    /// Active pods.
    pub(crate) replicas: i64,
    /// Active pods with all labels of the template.
    pub(crate) fully_labeled: i64,
    /// Active pods that are ready.
    pub(crate) ready: i64,
    /// Active pods that have been ready for long enough.
    pub(crate) available: i64,
    /// Terminating pods.
    pub(crate) terminating: Option<i64>,
    /// `observedGeneration`.
    pub(crate) observed: i64,
    /// Conditions.
    pub(crate) conditions: Vec<Condition>,
}

/// The projection of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaSet {
    /// `spec.replicas`.
    pub(crate) replicas: i64,
    /// `spec.minReadySeconds`.
    pub(crate) min_ready: i64,
    /// `spec.selector`; `None` selects nothing.
    pub(crate) selector: Option<LabelSelector>,
    /// Labels of the template.
    pub(crate) template_labels: Box<[(Str, Str)]>,
    /// The template without its hash label.
    pub(crate) template: Digest,
    /// `status`.
    pub(crate) status: ReplicaSetState,
}

impl Project for ReplicaSet {
    const RESOURCE: ResourceName = ResourceName::new("apps", "v1", "replicasets");
    const ANNOTATIONS: bool = true;

    fn project(obj: &Obj) -> Self {
        let Some(view) = obj.view::<apps_v1::ReplicaSet<'_>>() else { return Self::default() };
        let (spec, status) = (view.spec(), view.status());
        Self {
            replicas: spec.replicas().unwrap_or(1),
            min_ready: spec.min_ready_seconds(),
            selector: selector(spec.selector()),
            template_labels: spec
                .template()
                .metadata()
                .labels()
                .iter()
                .map(|(key, value)| (Str::from(key), Str::from(value)))
                .collect(),
            template: spec.template().node().map(template).unwrap_or_default(),
            status: ReplicaSetState {
                replicas: status.replicas(),
                fully_labeled: status.fully_labeled_replicas(),
                ready: status.ready_replicas(),
                available: status.available_replicas(),
                terminating: status.terminating_replicas(),
                observed: status.observed_generation(),
                conditions: status.conditions().values().iter().filter_map(Condition::read).collect(),
            },
        }
    }

    fn same(&self, next: &Self) -> bool {
        self == next
    }
}

//! The kind table: which strategy each served resource has. A resource that is not named here is [`Generic`].

use oarlock_schema::Resource;

use crate::kind::{Generic, KindDef, Strategy};
use crate::kinds::apps::deployment::DeploymentStrategy;
use crate::kinds::autoscaling::horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy;
use crate::kinds::batch::job::JobStrategy;
use crate::kinds::core::{
    event::EventStrategy, namespace::NamespaceStrategy, node::NodeStrategy, persistent_volume::PendingStrategy,
    pod::PodStrategy,
};

type Row = (&'static str, &'static str, &'static dyn Strategy);

/// (group, plural, strategy)
const STRATEGIES: &[Row] = &[
    ("", "events", &EventStrategy),
    ("", "namespaces", &NamespaceStrategy),
    ("", "nodes", &NodeStrategy),
    ("", "persistentvolumeclaims", &PendingStrategy),
    ("", "persistentvolumes", &PendingStrategy),
    ("", "pods", &PodStrategy),
    ("apps", "deployments", &DeploymentStrategy),
    ("autoscaling", "horizontalpodautoscalers", &HorizontalPodAutoscalerStrategy),
    ("batch", "jobs", &JobStrategy),
    ("events.k8s.io", "events", &EventStrategy),
];

fn strategy(resource: &Resource) -> &'static dyn Strategy {
    STRATEGIES.iter().find(|(g, p, _)| *g == resource.group && *p == resource.plural).map_or(&Generic, |(_, _, s)| *s)
}

/// The row of a resource.
#[must_use]
pub fn kind(resource: &'static Resource) -> KindDef {
    KindDef { resource, strategy: strategy(resource) }
}

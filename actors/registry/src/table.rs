//! The kind table: the strategy of each served resource. Resources without a row are [`Generic`].

use oarlock_schema::Resource;

use crate::kind::{Generic, KindDef, Orphaning, StatusOnly, Strategy};
use crate::kinds::apiextensions::custom_resource_definition::CustomResourceDefinitionStrategy;
use crate::kinds::apiregistration::api_service::ApiServiceStrategy;
use crate::kinds::apps::{daemon_set::DaemonSetStrategy, deployment::DeploymentStrategy};
use crate::kinds::autoscaling::horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy;
use crate::kinds::batch::job::JobStrategy;
use crate::kinds::certificates::certificate_signing_request::CertificateSigningRequestStrategy;
use crate::kinds::core::{
    event::EventStrategy, namespace::NamespaceStrategy, node::NodeStrategy,
    persistent_volume::PersistentVolumeStrategy, persistent_volume_claim::PersistentVolumeClaimStrategy,
    pod::PodStrategy, service::ServiceStrategy,
};
use crate::kinds::discovery::endpoint_slice::EndpointSliceStrategy;
use crate::kinds::scheduling::priority_class::PriorityClassStrategy;

type Row = (&'static str, &'static str, &'static dyn Strategy);

/// (group, plural, strategy)
const STRATEGIES: &[Row] = &[
    ("", "events", &EventStrategy),
    ("", "namespaces", &NamespaceStrategy),
    ("", "nodes", &NodeStrategy),
    ("", "persistentvolumeclaims", &PersistentVolumeClaimStrategy),
    ("", "persistentvolumes", &PersistentVolumeStrategy),
    ("", "pods", &PodStrategy),
    ("", "replicationcontrollers", &Orphaning),
    ("", "services", &ServiceStrategy),
    ("apiextensions.k8s.io", "customresourcedefinitions", &CustomResourceDefinitionStrategy),
    ("apiregistration.k8s.io", "apiservices", &ApiServiceStrategy),
    ("apps", "daemonsets", &DaemonSetStrategy),
    ("apps", "deployments", &DeploymentStrategy),
    ("autoscaling", "horizontalpodautoscalers", &HorizontalPodAutoscalerStrategy),
    ("batch", "jobs", &JobStrategy),
    ("certificates.k8s.io", "certificatesigningrequests", &CertificateSigningRequestStrategy),
    ("discovery.k8s.io", "endpointslices", &EndpointSliceStrategy),
    ("events.k8s.io", "events", &EventStrategy),
    ("networking.k8s.io", "servicecidrs", &StatusOnly),
    ("scheduling.k8s.io", "priorityclasses", &PriorityClassStrategy),
];

fn strategy(resource: &Resource) -> &'static dyn Strategy {
    // The plural is compared first: its length alone tells nearly all resources apart.
    STRATEGIES.iter().find(|(g, p, _)| *p == resource.plural && *g == resource.group).map_or(&Generic, |(_, _, s)| *s)
}

/// Returns the kind of a resource.
#[must_use]
pub fn kind(resource: &'static Resource) -> KindDef {
    KindDef { resource, strategy: strategy(resource) }
}

//! Plans the next step for a Service of type LoadBalancer.

use std::sync::Arc;

use oarlock_cloud::wire;
use oarlock_informer::Item;
use oarlock_meta::{Revision, Uid};

use crate::project::{BalancedService, CloudNode};

/// The finalizer that keeps a Service until its load balancer is deleted.
pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The label of nodes that are excluded from load balancers.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// The taint of nodes that cluster-autoscaler is about to delete.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// The eligible nodes of load balancers, in order of name.
pub(super) type Nodes = Arc<Vec<wire::Node>>;

/// The applied state of a Service's load balancer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    /// The Service's incarnation.
    pub(super) uid: Uid,
    /// The epoch of the claim under which the state was applied. After an older epoch another holder may have changed the load balancer.
    pub(super) epoch: Revision,
    /// The specification that was applied.
    pub(super) wants: Box<wire::LoadBalancerSpec>,
    /// The target nodes that were applied.
    pub(super) nodes: Nodes,
    /// The addresses that the provider returned.
    pub(super) ingress: Vec<wire::Ingress>,
}

/// One step for a Service. The next step is planned when the cache shows the result.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// Nothing to do: the load balancer is complete, or the Service needs none of this controller.
    Nothing,
    /// Add the finalizer, before a load balancer is created that must be deleted later.
    Guard,
    /// Create or change the load balancer.
    Ensure(&'a wire::LoadBalancerSpec),
    /// Change the load balancer's target nodes.
    Update(&'a Done),
    /// Write the load balancer's addresses into the status.
    Publish(Vec<wire::Ingress>),
    /// Delete the load balancer, then remove the finalizer.
    Delete,
}

pub(super) fn step<'a>(
    service: &'a Item<BalancedService>,
    nodes: &Nodes,
    done: Option<&'a Done>,
    epoch: Revision,
) -> Step<'a> {
    let guarded = service.meta.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    if guarded && (service.meta.deleting() || !service.value.balanced) {
        return Step::Delete;
    }
    let Some(wants) = service.value.wants.as_deref().filter(|_| !service.meta.deleting()) else { return Step::Nothing };
    if !guarded {
        return Step::Guard;
    }
    match done.filter(|done| done.uid == service.meta.uid && done.epoch == epoch && *done.wants == *wants) {
        None => Step::Ensure(wants),
        Some(done) if done.ingress != service.value.ingress => Step::Publish(done.ingress.clone()),
        Some(done) if done.nodes != *nodes => Step::Update(done),
        Some(_) => Step::Nothing,
    }
}

/// Returns a node as a load balancer target; `None` if the node is not eligible. Readiness does not matter, because load balancers have health checks of
/// their own: a node that is not ready for a moment must not lose its connections (upstream KEP 3458).
pub(super) fn node(node: &Item<CloudNode>) -> Option<wire::Node> {
    let excluded = node.meta.label(EXCLUDED).is_some() || node.value.has_taint(TO_BE_DELETED);
    (!node.meta.deleting() && !excluded).then(|| wire::Node {
        name: node.meta.name().to_owned(),
        provider_id: node.value.provider_id.to_string(),
        addresses: node.value.addresses.clone(),
    })
}

/// Converts the provider's addresses to the form in the Service's status.
pub(super) fn ingress(said: Vec<wire::Ingress>) -> Vec<wire::Ingress> {
    let mode = |mut one: wire::Ingress| {
        if one.ip.is_empty() {
            one.ip_mode.clear();
        } else if one.ip_mode.is_empty() {
            one.ip_mode = "VIP".to_owned();
        }
        one
    };
    said.into_iter().map(mode).collect()
}

/// Returns the nodes' names for a message, shortened if there are many.
pub(super) fn names(nodes: &[wire::Node]) -> String {
    const MAX_NAMES: usize = 20;
    let names: Vec<&str> = nodes.iter().take(MAX_NAMES).map(|node| node.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

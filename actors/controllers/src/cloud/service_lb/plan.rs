//! What is done next for a Service.

use std::sync::Arc;

use oarlock_cloud::wire;
use oarlock_informer::Item;
use oarlock_meta::{Revision, Uid};

use crate::project::{BalancedService, CloudNode};

/// Keeps a Service until its load balancer is gone.
pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// Label of nodes that no load balancer leads to.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Taint of nodes that cluster-autoscaler is about to take away.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// The nodes that load balancers lead to, in the order of names.
pub(super) type Nodes = Arc<Vec<wire::Node>>;

/// What was done for a Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    /// For this incarnation,
    pub(super) uid: Uid,
    /// under the claim of this epoch. Another holder may have done something else since an earlier one.
    pub(super) epoch: Revision,
    /// What it wanted.
    pub(super) wants: Box<wire::LoadBalancerSpec>,
    /// To where it was led.
    pub(super) nodes: Nodes,
    /// Where the provider says that it is reached.
    pub(super) ingress: Vec<wire::Ingress>,
}

/// One step; the next one is decided when this one shows.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// All is as it should be, or none of our business.
    Nothing,
    /// Put the finalizer on it, before anything is made that has to be taken away.
    Guard,
    /// Make or change its load balancer.
    Ensure(&'a wire::LoadBalancerSpec),
    /// Lead it to other nodes.
    Update(&'a Done),
    /// Say where it is reached.
    Publish(Vec<wire::Ingress>),
    /// Take it away, then the finalizer.
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

/// A node as load balancers are told of it; none when they do not lead there. Whether it is ready is for their own health checks to find out: a node
/// that is not ready for a moment must not lose its connections (upstream KEP 3458).
pub(super) fn node(node: &Item<CloudNode>) -> Option<wire::Node> {
    let excluded = node.meta.label(EXCLUDED).is_some() || node.value.has_taint(TO_BE_DELETED);
    (!node.meta.deleting() && !excluded).then(|| wire::Node {
        name: node.meta.name().to_owned(),
        provider_id: node.value.provider_id.to_string(),
        addresses: node.value.addresses.clone(),
    })
}

/// What a provider says of where it is reached, as it will stand in the status.
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

/// Names for a message, but not all of many.
pub(super) fn names(nodes: &[wire::Node]) -> String {
    const MOST: usize = 20;
    let names: Vec<&str> = nodes.iter().take(MOST).map(|node| node.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

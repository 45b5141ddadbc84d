//! The arbiter: accepts or refuses placements, one after the other.
//!
//! The arbiter does not trust shards. It checks each proposal again against its current state of the cluster: bound pods,
//! and accepted pods that the API has not confirmed yet. The checks are written separately, for one pod on one node, and
//! share no code with filters and no state with classes. Invariant: among accepted pods no hard constraint is violated at
//! the moment of acceptance.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

mod preemption;

use oarlock_seeded_bug::seeded_bug;

use crate::cluster::{Cluster, HolderKind, NOWHERE, Rehearsal};
use crate::column::NodeIx;
use crate::intern::{Res, Sym};
use crate::model::{Effect, NodeInfo, PodInfo, PodSpec};
use crate::shard::Proposal;

/// A hard constraint that a proposal can violate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// The pod must not have a node yet.
    Unplaced,
    /// The node must exist.
    Node,
    /// `spec.unschedulable`, taints, node affinity or node name.
    Admission(&'static str),
    /// A resource request exceeds the node's free amount.
    Resource {
        /// The resource.
        resource: Res,
        /// The requested amount.
        wanted: i64,
        /// The free amount.
        free: i64,
    },
    /// The node's limit of pods.
    Pods {
        /// The node's allocatable pods.
        limit: i64,
        /// The number of pods on the node.
        count: i64,
    },
    /// A claim of the pod is not satisfied, or its volume or device cannot be reached from the node.
    Claims(String),
    /// A host port.
    Port(u16),
    /// The pod's required affinity.
    Affinity,
    /// The pod's required anti-affinity.
    AntiAffinity,
    /// The required anti-affinity of another placed pod.
    Repelled,
    /// A hard spread constraint.
    Spread {
        /// Matching pods in the domain, this pod included.
        count: i64,
        /// The least among all domains.
        least: i64,
        /// What the constraint allows.
        max_skew: i64,
    },
    /// The room is reserved for nominated pods of the same or higher priority.
    Nominated,
    /// For a preemption: the pod must be allowed to preempt, must need a preemption, and must not wait for earlier victims.
    Preemptor(&'static str),
    /// For a preemption: each victim must be on the node and have a lower priority.
    Victim(&'static str),
}

impl Constraint {
    /// Returns the constraint's name in the status.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Unplaced => "unplaced",
            Self::Node => "node",
            Self::Admission(_) => "admission",
            Self::Resource { .. } => "resource",
            Self::Pods { .. } => "pods",
            Self::Claims(_) => "claims",
            Self::Port(_) => "port",
            Self::Affinity => "affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::Repelled => "repelled",
            Self::Spread { .. } => "spread",
            Self::Nominated => "nominated",
            Self::Preemptor(_) => "preemptor",
            Self::Victim(_) => "victim",
        }
    }
}

/// The refusal of a proposal: the violated constraint and the states of the cluster that were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The constraint that the proposal would violate.
    pub(crate) constraint: Constraint,
    /// The arbiter's position in the log of changes when it checked.
    pub(crate) seen: u64,
    /// The proposer's position when it chose the node.
    pub(crate) proposed: u64,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} at {} (proposed at {})", self.constraint, self.seen, self.proposed)
    }
}

/// The arbiter of one cluster, with the numbers of its verdicts.
#[derive(Debug, Default)]
pub(crate) struct Arbiter {
    /// Number of accepted proposals.
    pub(crate) accepted: u64,
    /// Number of allowed preemptions.
    pub(crate) allowed: u64,
    /// Number of refused proposals and preemptions, by [`Constraint::label`].
    pub(crate) refused: BTreeMap<&'static str, u64>,
}

impl Arbiter {
    /// Accepts or refuses a proposal. An accepted pod counts as placed at once.
    pub(crate) fn decide(&mut self, cluster: &mut Cluster, proposal: &Proposal) -> Result<(), Refusal> {
        let checked = self.check(cluster, proposal);
        match &checked {
            Ok(()) => {
                cluster.assume(&proposal.pod, proposal.node);
                self.accepted += 1;
            }
            Err(refusal) => *self.refused.entry(refusal.constraint.label()).or_default() += 1,
        }
        checked
    }

    fn check(&self, cluster: &mut Cluster, proposal: &Proposal) -> Result<(), Refusal> {
        let (pod, node) = (&proposal.pod, proposal.node);
        let refuse = |cluster: &Cluster, constraint| {
            Err(Refusal { constraint, seen: cluster.sequence(), proposed: proposal.seen })
        };
        if cluster.placed(&pod.uid).is_some() {
            return refuse(cluster, Constraint::Unplaced);
        }
        if seeded_bug!("arbiter_trusts_shards") {
            return Ok(());
        }
        let Some(info) = cluster.nodes.info(node).cloned() else { return refuse(cluster, Constraint::Node) };
        let expected = cluster.expected(pod, info.name);
        let broken = match expected.as_slice() {
            [] => broken(cluster, pod, &info, node),
            expected => broken_beside(&mut cluster.rehearse(node), pod, &info, node, expected),
        };
        broken.map_or(Ok(()), |constraint| refuse(cluster, constraint))
    }
}

/// Returns the first hard constraint that a pod on a node would violate in the current state.
fn broken(cluster: &mut Cluster, pod: &PodInfo, info: &NodeInfo, node: NodeIx) -> Option<Constraint> {
    let spec = &*pod.spec;
    admission(cluster, spec, info)
        .or_else(|| capacity(cluster, spec, node))
        .or_else(|| claims(cluster, spec, info))
        .or_else(|| ports(cluster, spec, node))
        .or_else(|| neighbours(cluster, &pod.spec, node))
}

/// Returns the first hard constraint that a pod would violate, once with the pods nominated to the node counted as placed and once without them: the pod
/// must not take room that was freed for the nominated pods.
fn broken_beside(
    rehearsal: &mut Rehearsal<'_>,
    pod: &PodInfo,
    info: &NodeInfo,
    node: NodeIx,
    expected: &[Arc<PodInfo>],
) -> Option<Constraint> {
    if !expected.is_empty() {
        expected.iter().for_each(|other| rehearsal.add(other));
        let crowded = broken(rehearsal.cluster(), pod, info, node).is_some();
        rehearsal.remove_added();
        if crowded {
            return Some(broken(rehearsal.cluster(), pod, info, node).unwrap_or(Constraint::Nominated));
        }
    }
    broken(rehearsal.cluster(), pod, info, node)
}

fn admission(cluster: &Cluster, spec: &PodSpec, node: &NodeInfo) -> Option<Constraint> {
    let names = &cluster.names;
    let bears = |key: Sym, value: Sym, effect: Effect| {
        spec.tolerations.iter().any(|toleration| {
            (toleration.key == key || toleration.key == Sym::EMPTY)
                && (toleration.exists || toleration.value == value)
                && (toleration.effect.is_none() || toleration.effect == Some(effect))
        })
    };
    if spec.node_name.is_some_and(|name| name != node.name) {
        return Some(Constraint::Admission("node name"));
    }
    if node.unschedulable && !bears(Sym::UNSCHEDULABLE, Sym::EMPTY, Effect::NoSchedule) {
        return Some(Constraint::Admission("unschedulable"));
    }
    let mut taints = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    if taints.any(|taint| !bears(taint.key, taint.value, taint.effect)) {
        return Some(Constraint::Admission("taint"));
    }
    if spec.node_selector.iter().any(|wanted| !wanted.accepts(node.labels.get(wanted.key), names)) {
        return Some(Constraint::Admission("node selector"));
    }
    let admitted = spec.node_required.as_ref().is_none_or(|terms| {
        terms.iter().any(|term| {
            let labelled = term.labels.iter().all(|wanted| wanted.accepts(node.labels.get(wanted.key), names));
            let named = term.fields.iter().all(|field| field.wanted == (field.name == node.name));
            !term.never && labelled && named
        })
    });
    (!admitted).then_some(Constraint::Admission("node affinity"))
}

fn capacity(cluster: &Cluster, spec: &PodSpec, node: NodeIx) -> Option<Constraint> {
    let (limit, count) = (cluster.nodes.pod_limit.at(node), cluster.nodes.pod_count.at(node));
    if count >= limit {
        return Some(Constraint::Pods { limit, count });
    }
    spec.requests.iter().find_map(|(resource, wanted)| {
        let free = cluster.nodes.free(node, *resource);
        (free < *wanted).then_some(Constraint::Resource { resource: *resource, wanted: *wanted, free })
    })
}

fn claims(cluster: &Cluster, spec: &PodSpec, node: &NodeInfo) -> Option<Constraint> {
    spec.claims.as_ref()?;
    let (claims, names) = (&cluster.claims, &cluster.names);
    let refused = claims.volumes_refuse(spec, names).or_else(|| claims.devices_refuse(spec, names));
    let elsewhere =
        || claims.volumes_elsewhere(spec, node, names).or_else(|| claims.devices_elsewhere(spec, node, names));
    refused.or_else(|| elsewhere().map(str::to_owned)).map(Constraint::Claims)
}

fn ports(cluster: &Cluster, spec: &PodSpec, node: NodeIx) -> Option<Constraint> {
    if spec.ports.is_empty() {
        return None;
    }
    let taken = |wanted: &crate::model::HostPort| {
        cluster.pods_on(node).any(|pod| pod.info.spec.ports.iter().any(|used| used.clashes(wanted)))
    };
    spec.ports.iter().find(|wanted| taken(wanted)).map(|wanted| Constraint::Port(wanted.port))
}

/// Checks affinity, anti-affinity in both directions and hard spread, from the counts of the node's domain.
fn neighbours(cluster: &mut Cluster, spec: &std::sync::Arc<PodSpec>, node: NodeIx) -> Option<Constraint> {
    let id = cluster.pin(spec);
    let broken = judge_neighbours(cluster, id, node);
    cluster.unpin(id);
    broken
}

fn judge_neighbours(cluster: &Cluster, id: crate::cluster::SpecId, node: NodeIx) -> Option<Constraint> {
    let compiled = cluster.compiled(id)?;
    let set = cluster.spec(id)?.set;
    let counted = |counter| {
        let counter = cluster.counter(counter)?;
        let domain = cluster.topologies.domain(counter.key.topology, node);
        Some((domain, counter.count(domain), counter))
    };
    let mut alone = compiled.affine_to_itself;
    let mut joined = true;
    for counter in &compiled.affinity {
        let Some((domain, count, counter)) = counted(*counter) else { return Some(Constraint::Affinity) };
        if domain == NOWHERE {
            return Some(Constraint::Affinity);
        }
        joined &= count > 0;
        alone &= counter.total == 0;
    }
    if !joined && !alone {
        return Some(Constraint::Affinity);
    }
    if compiled.anti_affinity.iter().filter_map(|counter| counted(*counter)).any(|(_, count, _)| count > 0) {
        return Some(Constraint::AntiAffinity);
    }
    let mut holders = cluster.counts.holders_over(set, HolderKind::Repels);
    if holders.any(|holder| holder.sum(cluster.topologies.domain(holder.key.1, node)) > 0) {
        return Some(Constraint::Repelled);
    }
    for rule in &compiled.hard_spread {
        let Some((domain, count, counter)) = counted(rule.counter) else { continue };
        let count = i64::from(count) + i64::from(rule.counts_itself);
        let least = match counter.minimum() {
            _ if counter.domains < rule.min_domains => Some(0),
            least => least.map(i64::from),
        };
        let max_skew = rule.max_skew;
        if domain == NOWHERE {
            return Some(Constraint::Spread { count, least: least.unwrap_or(0), max_skew });
        }
        if let Some(least) = least.filter(|least| count - least > max_skew) {
            return Some(Constraint::Spread { count, least, max_skew });
        }
    }
    None
}

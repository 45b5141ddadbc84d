//! The arbiter's check of a preemption, which does not trust the shard that proposed it.

use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;

use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::model::{NodeInfo, PodInfo, Uid};

use super::{Arbiter, Constraint, Refusal, admission, broken_beside};

impl Arbiter {
    /// Allows or refuses to evict `victims` from a node for a pod. Returns the victims' current states. Changes no cluster state.
    pub(crate) fn allow(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        node: NodeIx,
        victims: &[Uid],
    ) -> Result<Vec<Arc<PodInfo>>, Refusal> {
        let looked = look(cluster, pod, node, victims);
        match &looked {
            Ok(_) => self.allowed += 1,
            Err(constraint) => *self.refused.entry(constraint.label()).or_default() += 1,
        }
        let seen = cluster.sequence();
        looked.map_err(|constraint| Refusal { constraint, seen, proposed: seen })
    }
}

fn look(
    cluster: &mut Cluster,
    pod: &Arc<PodInfo>,
    node: NodeIx,
    victims: &[Uid],
) -> Result<Vec<Arc<PodInfo>>, Constraint> {
    if cluster.placed(&pod.uid).is_some() {
        return Err(Constraint::Unplaced);
    }
    let Some(info) = cluster.nodes.info(node).cloned() else { return Err(Constraint::Node) };
    if pod.never_preempts {
        return Err(Constraint::Preemptor("never preempts"));
    }
    if waits(cluster, pod) {
        return Err(Constraint::Preemptor("others leave for it already"));
    }
    let found = resolve(cluster, pod, &info, victims)?;
    let expected = cluster.expected(pod, info.name);
    let mut rehearsal = cluster.rehearse(node);
    if broken_beside(&mut rehearsal, pod, &info, node, &expected).is_none() {
        return Err(Constraint::Preemptor("fits without"));
    }
    found.iter().for_each(|victim| rehearsal.remove(&victim.uid));
    match broken_beside(&mut rehearsal, pod, &info, node, &expected) {
        Some(constraint) => Err(constraint),
        None => Ok(found),
    }
}

/// Returns the victims' current states, if every victim is on the node and of lower priority.
fn resolve(
    cluster: &Cluster,
    pod: &PodInfo,
    info: &NodeInfo,
    victims: &[Uid],
) -> Result<Vec<Arc<PodInfo>>, Constraint> {
    let mut found = Vec::with_capacity(victims.len());
    for uid in victims {
        let Some(victim) = cluster.placed(uid) else { return Err(Constraint::Victim("gone")) };
        let wrong = if victim.node != info.name {
            Some("elsewhere")
        } else if victim.info.priority >= pod.priority {
            Some("not of lower priority")
        } else {
            None
        };
        if let Some(wrong) = wrong
            && !seeded_bug!("victims_unchecked")
        {
            return Err(Constraint::Victim(wrong));
        }
        found.push(Arc::clone(&victim.info));
    }
    Ok(found)
}

/// Whether the pod is nominated to a node that still admits the pod, and victims there are still terminating.
fn waits(cluster: &Cluster, pod: &PodInfo) -> bool {
    let nominated = cluster.nominations.node_of(&pod.uid).and_then(|name| cluster.nodes.find(name));
    let info = nominated.and_then(|node| cluster.nodes.info(node));
    info.is_some_and(|info| admission(cluster, &pod.spec, info).is_none()) && cluster.waits_for_victims(pod)
}

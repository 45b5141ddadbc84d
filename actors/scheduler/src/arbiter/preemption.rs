//! The arbiter's look at a preemption: it believes no shard that somebody has to go.

use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;

use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::model::{NodeInfo, PodInfo, Uid};

use super::{Arbiter, Constraint, Refusal, admission, broken_beside};

impl Arbiter {
    /// Allows that `victims` have to leave a node for a pod, or refuses it. Returns them as they are known here. Nothing is changed.
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
    found.iter().for_each(|victim| rehearsal.take(&victim.uid));
    match broken_beside(&mut rehearsal, pod, &info, node, &expected) {
        Some(constraint) => Err(constraint),
        None => Ok(found),
    }
}

/// The victims as they are known here.
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

/// Whether the pod has to wait for those who leave the node it is nominated to, where it may still go to that node.
fn waits(cluster: &Cluster, pod: &PodInfo) -> bool {
    let nominated = cluster.nominations.node_of(&pod.uid).and_then(|name| cluster.nodes.find(name));
    let info = nominated.and_then(|node| cluster.nodes.info(node));
    info.is_some_and(|info| admission(cluster, &pod.spec, info).is_none()) && cluster.waits_for_victims(pod)
}

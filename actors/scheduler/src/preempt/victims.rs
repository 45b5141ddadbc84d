//! Selects the victims on one node: as few pods as suffice, and the least important ones (upstream: `SelectVictimsOnNode`).

use std::sync::Arc;

use crate::column::NodeIx;
use crate::framework::Tally;
use crate::model::PodInfo;
use crate::post_filter::PostFilterContext;

use super::choice::Candidate;

/// The result of trying preemption on one node.
pub(super) enum Tried {
    /// The pod fits once the candidate's victims are deleted.
    Fits(Candidate),
    /// No pod on the node may be evicted, or none needs to be.
    NoVictims,
    /// The pod does not fit even without all pods of lower priority; the tally counts why.
    Unfit,
}

/// Tries preemption on a node for a pod that must leave room for the nominated pods in `expected`.
pub(super) fn on(
    context: &mut PostFilterContext<'_>,
    node: NodeIx,
    expected: &[Arc<PodInfo>],
    tally: &mut Tally,
) -> Tried {
    let PostFilterContext { cluster, pod, filters, .. } = context;
    let here = cluster.pods_on(node).map(|other| &other.info);
    let mut lower: Vec<Arc<PodInfo>> = here.filter(|other| other.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return Tried::NoVictims;
    }
    lower.sort_by(|one, other| one.importance().cmp(&other.importance()));
    let (protected, others) = cluster.budgets.part(lower.clone(), &cluster.names);
    let mut rehearsal = cluster.rehearse(node);
    lower.iter().for_each(|victim| rehearsal.remove(&victim.uid));
    if filters.explain_beside(&mut rehearsal, expected, tally).is_some() {
        return Tried::Unfit;
    }
    // Pods that a budget protects are spared first, and within each group the most important ones.
    let mut spare = |pods: Vec<Arc<PodInfo>>| {
        let leaves = |victim: &Arc<PodInfo>| {
            rehearsal.put_back(&victim.uid);
            let stays = filters.pass_beside(&mut rehearsal, expected);
            if !stays {
                rehearsal.remove(&victim.uid);
            }
            !stays
        };
        pods.into_iter().filter(leaves).collect::<Vec<_>>()
    };
    let mut victims = spare(protected);
    let violations = victims.len();
    victims.extend(spare(others));
    if victims.is_empty() {
        return Tried::NoVictims;
    }
    victims.sort_by(|one, other| one.importance().cmp(&other.importance()));
    Tried::Fits(Candidate { node, victims, violations })
}

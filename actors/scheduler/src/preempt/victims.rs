//! Who has to leave one node: as few as will do, and the least important (upstream: `SelectVictimsOnNode`).

use std::sync::Arc;

use crate::column::NodeIx;
use crate::framework::{PostFilterContext, Tally};
use crate::model::PodInfo;

use super::choice::Candidate;

/// What came of trying a node out.
pub(super) enum Tried {
    /// The pod fits once these are gone.
    Fits(Candidate),
    /// Nobody there could leave, or nobody has to.
    NoVictims,
    /// It would not fit without all of lower priority either; why is in the tally.
    Unfit,
}

/// Tries a node out for a pod that has to leave room for those that are `expected` there.
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
    lower.iter().for_each(|victim| rehearsal.take(&victim.uid));
    if filters.explain_beside(&mut rehearsal, node, expected, tally).is_some() {
        return Tried::Unfit;
    }
    // Those whom a budget protects are spared first, and of all the most important.
    let mut spare = |pods: Vec<Arc<PodInfo>>| {
        let leaves = |victim: &Arc<PodInfo>| {
            rehearsal.put_back(&victim.uid);
            let stays = rehearsal.fits(filters, expected);
            if !stays {
                rehearsal.take(&victim.uid);
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

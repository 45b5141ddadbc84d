//! Preemption: which pods of lower priority would have to leave which node for a pod that fits nowhere (upstream: `framework/preemption`).
//!
//! Here it is found out and nothing is done. A shard proposes what comes of it; the arbiter looks at it again ([`crate::arbiter`]).

mod candidates;
mod choice;
#[cfg(test)]
mod tests;
mod victims;

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::Cluster;
use crate::column::NodeIx;
use crate::framework::{Diagnosis, PostFilterContext, Tally};
use crate::model::PodInfo;

/// A node on which a pod will fit once `victims` are gone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Preemption {
    /// The node.
    pub(crate) node: NodeIx,
    /// Who has to leave, the most important first. Some may be leaving already.
    pub(crate) victims: Vec<Arc<PodInfo>>,
}

/// Whether the pod has to wait for pods that leave the node it is nominated to; if nothing could help there any more, it need not.
pub(crate) fn has_to_wait(cluster: &Cluster, pod: &PodInfo, diagnosis: &Diagnosis) -> bool {
    let nominated = cluster.nominations.node_of(&pod.uid).and_then(|name| cluster.nodes.find(name));
    nominated.is_some_and(|node| !diagnosis.tally.unresolvable.contains(node)) && cluster.waits_for_victims(pod)
}

/// The best preemption there is; if there is none, says of each node why.
pub(crate) fn find(context: &mut PostFilterContext<'_>) -> Result<Preemption, Tally> {
    let mut hopeless = context.cluster.nodes.live.clone();
    let mut potential = BitSet::default();
    if context.diagnosis.rejected.is_none() {
        potential.copy_from(&hopeless);
        potential.subtract(&context.diagnosis.tally.unresolvable);
        hopeless.subtract(&potential);
    }
    let mut tally = Tally::default();
    tally.add_all(candidates::UNHELPFUL, &hopeless, true);
    let found = candidates::of(context, &potential, &mut tally);
    let best = choice::best(found).ok_or(tally)?;
    Ok(Preemption { node: best.node, victims: best.victims })
}

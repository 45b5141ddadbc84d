//! Preemption search: finds the pods of lower priority to evict, and the node, for a pod that fits on no node (upstream: `framework/preemption`).
//!
//! The search changes nothing. A shard proposes the result, and the arbiter checks it again ([`crate::arbiter`]).

mod candidates;
mod choice;
#[cfg(test)]
mod tests;
mod victims;

use crate::bits::BitSet;
use crate::cluster::Cluster;
use crate::framework::{Diagnosis, Tally};
use crate::model::PodInfo;
use crate::post_filter::{PostFilterContext, Preemption};

/// Whether the pod has to wait for victims on the node it is nominated to. A pod need not wait if preemption cannot help on that node any more.
pub(crate) fn has_to_wait(cluster: &Cluster, pod: &PodInfo, diagnosis: &Diagnosis) -> bool {
    let nominated = cluster.nominations.node_of(&pod.uid).and_then(|name| cluster.nodes.find(name));
    nominated.is_some_and(|node| !diagnosis.tally.unresolvable.contains(node)) && cluster.waits_for_victims(pod)
}

/// Returns the best preemption; if there is none, counts the reason of each node.
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

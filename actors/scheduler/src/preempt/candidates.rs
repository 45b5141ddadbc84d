//! Selects the nodes on which preemption is tried (upstream: `DryRunPreemption`).

use crate::bits::BitSet;
use crate::column::NodeIx;
use crate::framework::{Reason, Tally};
use crate::post_filter::PostFilterContext;

use super::choice::Candidate;
use super::victims::{self, Tried};

/// Reason of a node on which evicting pods does not help.
pub(super) const UNHELPFUL: Reason = Reason::Text("Preemption is not helpful for scheduling");
const NO_VICTIMS: Reason = Reason::Text("No preemption victims found for incoming pod");

/// Percentage of the potential nodes that is enough candidates (upstream: `minCandidateNodesPercentage`).
const PERCENTAGE: usize = 10;
/// Least number of candidates (upstream: `minCandidateNodesAbsolute`).
const ABSOLUTE: usize = 100;

/// Returns the number of candidates that is enough for a number of nodes.
pub(super) fn enough(nodes: usize) -> usize {
    (nodes * PERCENTAGE / 100).max(ABSOLUTE).min(nodes)
}

/// Tries preemption on the nodes in `potential`, starting at a random one, until there are enough candidates and one of them violates no budget. Candidates
/// without violations come first. The tally counts the reasons of the other nodes.
pub(super) fn of(context: &mut PostFilterContext<'_>, potential: &BitSet, tally: &mut Tally) -> Vec<Candidate> {
    let count = potential.len();
    if count == 0 {
        return Vec::new();
    }
    let offset = (context.choose)(u32::try_from(count).unwrap_or(u32::MAX)) as usize;
    let start = potential.iter().nth(offset).unwrap_or_default();
    let reserved = context.cluster.reserved(context.pod);
    // A column gives the nodes without pods of lower priority, so they cost no trial.
    let (cluster, priority) = (&*context.cluster, context.pod.priority);
    let mut loaded = BitSet::default();
    loaded.fill((0..cluster.nodes.slots()).map(|slot| cluster.lowest_priority(NodeIx(slot as u32)) < priority));
    loaded.intersect_with(potential);
    let mut bare = potential.clone();
    bare.subtract(&loaded);
    tally.add_all(NO_VICTIMS, &bare, true);
    let (mut clean, mut violating) = (Vec::new(), Vec::new());
    let around = loaded.iter().filter(|node| *node >= start).chain(loaded.iter().filter(|node| *node < start));
    for node in around {
        let expected = reserved.iter().find(|(there, _)| *there == node).map_or(&[][..], |(_, expected)| expected);
        match victims::on(context, node, expected, tally) {
            Tried::Fits(candidate) if candidate.violations == 0 => clean.push(candidate),
            Tried::Fits(candidate) => violating.push(candidate),
            Tried::NoVictims => tally.add(NO_VICTIMS, node, true),
            Tried::Unfit => {}
        }
        if !clean.is_empty() && clean.len() + violating.len() >= enough(count) {
            break;
        }
    }
    clean.append(&mut violating);
    clean
}

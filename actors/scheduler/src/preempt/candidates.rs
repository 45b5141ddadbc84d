//! Which nodes are tried out, and how many (upstream: `DryRunPreemption`).

use crate::bits::BitSet;
use crate::column::NodeIx;
use crate::framework::{PostFilterContext, Reason, Tally};

use super::choice::Candidate;
use super::victims::{self, Tried};

/// Of a node where it does not matter who leaves.
pub(super) const UNHELPFUL: Reason = Reason::Text("Preemption is not helpful for scheduling");
const NO_VICTIMS: Reason = Reason::Text("No preemption victims found for incoming pod");

/// So many in a hundred of the nodes that may do are enough (upstream: `minCandidateNodesPercentage`).
const PERCENTAGE: usize = 10;
/// But not fewer than this (upstream: `minCandidateNodesAbsolute`).
const ABSOLUTE: usize = 100;

/// How many candidates are enough among so many nodes.
pub(super) fn enough(nodes: usize) -> usize {
    (nodes * PERCENTAGE / 100).max(ABSOLUTE).min(nodes)
}

/// Tries the nodes in `potential` out, from any of them on, until there are enough candidates and one of them violates no budget; those without
/// violations come first. Of the nodes that will not do the tally says why.
pub(super) fn of(context: &mut PostFilterContext<'_>, potential: &BitSet, tally: &mut Tally) -> Vec<Candidate> {
    let count = potential.len();
    if count == 0 {
        return Vec::new();
    }
    let offset = (context.choose)(u32::try_from(count).unwrap_or(u32::MAX)) as usize;
    let start = potential.iter().nth(offset).unwrap_or_default();
    let reserved = context.cluster.reserved(context.pod);
    // Nodes without pods of lower priority are told apart by a column, however many there are.
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

//! Decides which pods of earlier templates a rolling update replaces next (upstream `rollingUpdate`).

use std::collections::BTreeSet;

use oarlock_seeded_bug::seeded_bug;

use super::actions::{Plan, Why};
use super::placement::Placement;
use super::pods::Pod;
use super::snapshot::Snapshot;
use crate::project::Amount;

/// Plans the next step of a rolling update within the most unavailable nodes and the most nodes with a surge, both rounded up.
pub(super) fn roll<'a>(snapshot: &Snapshot<'a>, (unavailable, surge): (&Amount, &Amount), plan: &mut Plan<'a>) {
    let desired = snapshot.desired();
    match (unavailable.of(desired, true), surge.of(desired, true)) {
        // Validation refuses two zeros.
        (0, 0) => in_place(snapshot, 1, plan),
        (unavailable, 0) => in_place(snapshot, unavailable, plan),
        (_, surge) => beside(snapshot, (desired, surge), plan),
    }
}

/// The pods on a node that are not being deleted, of a node that has at most one of each template.
struct Pair<'a> {
    new: Option<&'a Pod>,
    old: Option<&'a Pod>,
}

/// Returns the pods on a node; `None` if the node has two of one template, of which the plan will delete one.
fn pair<'a>(snapshot: &Snapshot<'a>, node: &str) -> Option<Pair<'a>> {
    let mut pair = Pair { new: None, old: None };
    for pod in snapshot.on(node).iter().copied().filter(|pod| !pod.meta.deleting()) {
        let place = if snapshot.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if place.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// Returns the nodes that count: those that are to run a pod, and those that have one.
fn nodes<'a>(snapshot: &Snapshot<'a>) -> BTreeSet<&'a str> {
    let wanted = snapshot.nodes.iter().filter(|(_, placement)| **placement == Placement::Runs);
    wanted.map(|(node, _)| *node).chain(snapshot.pods.keys().copied()).collect()
}

/// Plans to delete old pods: those that are not available at once, and so many of the others that at most `most` nodes are without an available pod.
fn in_place<'a>(snapshot: &Snapshot<'a>, most: i64, plan: &mut Plan<'a>) {
    let (mut missing, mut candidates): (i64, Vec<&'a Pod>) = (0, Vec::new());
    for node in nodes(snapshot) {
        match pair(snapshot, node) {
            Some(Pair { new: None, old: Some(old) }) if snapshot.is_available(old) => candidates.push(old),
            Some(Pair { new: None, old: Some(old) }) => {
                plan.remove([old], Why::Outdated);
                missing += 1;
            }
            Some(Pair { new: Some(new), old: None }) if snapshot.is_available(new) => {}
            _ => missing += 1,
        }
    }
    let room = if seeded_bug!("daemon_roll_ignores_unavailable") { most } else { most.saturating_sub(missing) };
    plan.remove(candidates.into_iter().take(usize::try_from(room).unwrap_or(0)), Why::Outdated);
}

/// Plans to create new pods beside old ones on at most `most` nodes, and beside every old one that is not available. An old pod is deleted when the new one is
/// available. On nodes that are not to get a new pod, old pods stay as long as fewer nodes than desired have an available pod.
fn beside<'a>(snapshot: &Snapshot<'a>, (desired, most): (i64, i64), plan: &mut Plan<'a>) {
    let (mut surged, mut available): (i64, i64) = (0, 0);
    let (mut candidates, mut unwanted): (Vec<&'a str>, Vec<&'a Pod>) = (Vec::new(), Vec::new());
    for node in nodes(snapshot) {
        let Some(Pair { new, old }) = pair(snapshot, node) else {
            surged += 1;
            continue;
        };
        available += i64::from(old.or(new).is_some_and(|pod| snapshot.is_available(pod)));
        let runs = snapshot.placement(node) == Placement::Runs;
        match (old, new) {
            (None, _) => {}
            (Some(old), None) => match (snapshot.is_available(old), runs) {
                (true, true) => candidates.push(node),
                (true, false) => unwanted.push(old),
                (false, true) => plan.add(node),
                (false, false) => plan.remove([old], Why::Outdated),
            },
            (Some(old), Some(new)) if snapshot.is_available(new) => plan.remove([old], Why::Outdated),
            (Some(_), Some(_)) => surged += 1,
        }
    }
    let spare = usize::try_from(available.saturating_sub(desired)).unwrap_or(0);
    plan.remove(unwanted.into_iter().take(spare), Why::Outdated);
    let room = usize::try_from(most.saturating_sub(surged)).unwrap_or(0);
    candidates.into_iter().take(room).for_each(|node| plan.add(node));
}

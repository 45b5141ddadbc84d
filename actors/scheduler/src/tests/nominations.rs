//! Tests of nominations, and of the room that they reserve.

use std::sync::Arc;

use crate::engine::{Decision, ProposalError};
use crate::framework::Call;
use crate::model::{PodInfo, Uid};
use crate::testing::{World, pod};

/// Returns a world with one node of two cores, filled by two pods of priority 1.
fn full() -> World {
    let mut world = World::new(&[("n1", "cpu=2 memory=4Gi")]);
    world.pod("v1", "cpu=1 priority=1 node=n1");
    world.pod("v2", "cpu=1 priority=1 node=n1");
    world
}

fn info(world: &mut World, name: &str, text: &str) -> Arc<PodInfo> {
    Arc::new(pod(&mut world.engine.cluster.names, name, text))
}

/// Creates a pod that preempts, and reports its writes as done.
fn preempt(world: &mut World, name: &str, text: &str) -> Vec<Call> {
    world.pod(name, text);
    match world.step() {
        Some(Decision::Preempt { popped, unfit, calls, .. }) => {
            world.engine.preempted(&popped.pod.uid, unfit.rejectors, 50, world.now);
            calls
        }
        other => panic!("{other:?}"),
    }
}

fn gone(world: &mut World, name: &str) {
    world.engine.on_pod_gone(&format!("uid-{name}"), world.now);
}

fn refusal<T: std::fmt::Debug>(denied: Result<T, ProposalError>) -> String {
    match denied {
        Err(ProposalError::Refused(refusal)) => format!("{:?}", refusal.constraint),
        other => format!("{other:?}"),
    }
}

const NO_ROOM: &str = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";

#[test]
fn room_that_victims_leave_is_kept_for_who_was_nominated() {
    let mut world = full();
    preempt(&mut world, "high", "cpu=2 priority=9");
    gone(&mut world, "v1");
    gone(&mut world, "v2");
    world.engine.queue.remove("uid-high");
    for (name, priority) in [("lower", 1), ("equal", 9)] {
        assert_eq!(world.try_pod(name, &format!("cpu=1 priority={priority}")), NO_ROOM);
        // The arbiter also refuses the proposal of a shard that does not know the nomination.
        let ignorant = info(&mut world, &format!("{name}-2"), &format!("cpu=1 priority={priority}"));
        assert_eq!(refusal(world.engine.judge(&ignorant, "n1", world.now)), "Nominated");
    }
    let high = info(&mut world, "high", "cpu=2 priority=9 version=60 nominated=n1");
    world.engine.on_pod(high, true, world.now);
    assert!(matches!(world.step(), Some(Decision::Bind { node, .. }) if *node == *"n1"));
}

#[test]
fn the_higher_takes_room_that_was_left_for_the_lower() {
    let mut world = full();
    preempt(&mut world, "middle", "cpu=2 priority=5");
    gone(&mut world, "v1");
    gone(&mut world, "v2");
    world.engine.queue.remove("uid-middle");
    assert_eq!(world.try_pod("higher", "cpu=1 priority=6"), "n1");
}

#[test]
fn who_is_expected_is_no_company_yet() {
    let mut world = World::new(&[("n1", "cpu=2"), ("n2", "cpu=2")]);
    world.pod("friend", "cpu=1 label:app=a priority=9 nominated=n1 gate:g");
    assert!(
        world
            .try_pod("p", "cpu=1 near:host/app=a")
            .starts_with("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
    );
    // Anti-affinity with the nominated pod still applies.
    assert_eq!(world.try_pod("q", "cpu=1 apart:host/app=a"), "n2");
    let foe = info(&mut world, "r", "cpu=1 apart:host/app=a");
    assert_eq!(refusal(world.engine.judge(&foe, "n1", world.now)), "Nominated");
}

#[test]
fn a_nominated_node_goes_first_and_others_if_it_does_not_fit() {
    let mut world = World::new(&[("small", "cpu=2 memory=2Gi"), ("large", "cpu=64 memory=64Gi")]);
    assert_eq!(world.try_pod("a", "cpu=1 priority=5 nominated=small"), "small");
    assert_eq!(world.try_pod("b", "cpu=2 priority=5 nominated=small"), "large");
}

#[test]
fn who_has_victims_on_their_way_waits_for_them() {
    let mut world = full();
    let calls = preempt(&mut world, "high", "cpu=2 priority=9");
    assert_eq!(calls.len(), 2, "{calls:?}");
    let waits = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.";
    let retry = |world: &mut World| {
        let uid: Uid = Arc::from("uid-high");
        world.engine.queue.wake(&uid, world.now);
        match world.step() {
            Some(Decision::Unschedulable { message, denominated: false, .. }) => message,
            other => panic!("{other:?}"),
        }
    };
    // The victims are evicted, but not seen terminating yet.
    assert_eq!(retry(&mut world), waits);
    world.pod("v1", "cpu=1 priority=1 node=n1 terminating preempted");
    gone(&mut world, "v2");
    assert_eq!(retry(&mut world), waits);
    // A restarted process detects the victims by their condition alone.
    let mut later = full();
    later.pod("v1", "cpu=1 priority=1 node=n1 terminating preempted");
    assert!(
        later.try_pod("high", "cpu=2 priority=9 nominated=n1").ends_with("a terminating pod on the nominated node.")
    );
    // A pod that terminates for another reason is not waited for.
    let mut other = full();
    other.pod("v1", "cpu=1 priority=1 node=n1 terminating");
    let calls = preempt(&mut other, "high", "cpu=2 priority=9 nominated=n1");
    let [Call::Nominate, Call::Evict(victims)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(victims.iter().map(|victim| &*victim.name).collect::<Vec<_>>(), ["v2"], "v1 is leaving already");
    // Victims on a node that no longer admits the pod are not waited for.
    let mut cordoned = full();
    cordoned.pod("v1", "cpu=1 priority=1 node=n1 terminating preempted");
    cordoned.node("n1", "cpu=2 memory=4Gi cordoned");
    cordoned.node("n2", "cpu=2 memory=4Gi");
    cordoned.pod("w", "cpu=2 priority=1 node=n2");
    let calls = preempt(&mut cordoned, "high", "cpu=2 priority=9 nominated=n1");
    assert!(matches!(calls.as_slice(), [Call::Nominate, Call::Evict(_)]), "{calls:?}");
}

#[test]
fn the_pod_is_tried_again_when_its_victims_are_gone() {
    let mut world = full();
    preempt(&mut world, "high", "cpu=2 priority=9");
    assert!(world.step().is_none());
    gone(&mut world, "v1");
    gone(&mut world, "v2");
    assert!(matches!(world.step(), Some(Decision::Bind { .. })));
    // The victims may be deleted before the outcome of the writes is known.
    let mut fast = full();
    fast.pod("high", "cpu=2 priority=9");
    let Some(Decision::Preempt { popped, unfit, .. }) = fast.step() else { panic!("no preemption") };
    gone(&mut fast, "v1");
    gone(&mut fast, "v2");
    assert!(fast.step().is_none());
    fast.engine.preempted(&popped.pod.uid, unfit.rejectors, 50, fast.now);
    assert!(matches!(fast.step(), Some(Decision::Bind { .. })));
}

#[test]
fn lower_nominations_on_the_node_are_cleared_and_equal_ones_stay() {
    let mut world = full();
    world.pod("low", "cpu=1 priority=2 nominated=n1 gate:g");
    world.pod("equal", "cpu=1 priority=9 nominated=n1 gate:g");
    world.pod("elsewhere", "cpu=1 priority=2 nominated=n2 gate:g");
    let calls = preempt(&mut world, "high", "cpu=1 priority=9");
    let [Call::Nominate, Call::Denominate(lower), Call::Evict(victims)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(lower.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["low"]);
    // Room is also left for the nominated pod of equal priority.
    assert_eq!(victims.len(), 2);
}

#[test]
fn a_nomination_that_cannot_help_any_more_is_cleared() {
    let mut world = World::new(&[("n1", "cpu=2")]);
    world.pod("equal", "cpu=2 priority=9 node=n1");
    world.pod("waits", "cpu=1 priority=9 gate:g");
    world.pod("high", "cpu=1 priority=9 nominated=n1");
    let decision = world.step();
    assert!(matches!(decision, Some(Decision::Unschedulable { denominated: true, .. })), "{decision:?}");
    assert!(world.engine.cluster.nominations.is_empty());
    // Other pods may use the room again.
    let mut freed = World::new(&[("n1", "cpu=2")]);
    freed.pod("nominated", "cpu=2 priority=9 nominated=n1 gate:g");
    assert_eq!(freed.try_pod("lower", "cpu=1"), NO_ROOM);
    freed.pod("nominated", "cpu=2 priority=9 version=2 gate:g");
    assert!(matches!(freed.step(), Some(Decision::Bind { popped, .. }) if *popped.pod.name == *"lower"));
}

#[test]
fn the_arbiter_looks_at_victims_again() {
    let mut world = full();
    world.node("n2", "cpu=2 memory=4Gi");
    world.pod("peer", "cpu=2 priority=9 node=n2");
    world.pod("w", "cpu=1 priority=1 node=n3");
    let high = info(&mut world, "high", "cpu=2 priority=9");
    let uids = |names: &[&str]| names.iter().map(|name| Arc::from(format!("uid-{name}"))).collect::<Vec<Uid>>();
    let mut judged = |pod: &Arc<PodInfo>, node: &str, victims: &[&str]| {
        refusal(world.engine.judge_preemption(pod, node, &uids(victims)))
    };
    assert_eq!(judged(&high, "n2", &["peer"]), "Victim(\"not of lower priority\")");
    assert_eq!(judged(&high, "n1", &["v1", "unknown"]), "Victim(\"gone\")");
    assert_eq!(judged(&high, "n1", &["v1", "v2", "w"]), "Victim(\"elsewhere\")");
    assert!(judged(&high, "n1", &["v1"]).starts_with("Resource"), "one is not enough");
    assert_eq!(judged(&high, "n9", &["v1", "v2"]), "Node");
    let small = info(&mut world, "small", "priority=9");
    let never = info(&mut world, "never", "cpu=2 priority=9 never");
    let mut judged =
        |pod: &Arc<PodInfo>, victims: &[&str]| refusal(world.engine.judge_preemption(pod, "n1", &uids(victims)));
    assert_eq!(judged(&small, &["v1"]), "Preemptor(\"fits without\")");
    assert_eq!(judged(&never, &["v1", "v2"]), "Preemptor(\"never preempts\")");
    assert!(judged(&high, &["v1", "v2"]).starts_with("Ok"));
    // An allowed preemption is neither repeated, nor is its room given to another pod.
    assert_eq!(judged(&high, &["v1", "v2"]), "Preemptor(\"others leave for it already\")");
    let peer = info(&mut world, "second", "cpu=2 priority=9");
    assert_eq!(refusal(world.engine.judge_preemption(&peer, "n1", &uids(&["v1", "v2"]))), "Nominated");
    // The preemption is withdrawn: the former state returns.
    world.engine.withdraw("uid-high", world.now);
    assert!(refusal(world.engine.judge_preemption(&peer, "n1", &uids(&["v1", "v2"]))).starts_with("Ok"));
}

#[test]
fn what_was_decided_here_stands_until_the_api_has_come_that_far() {
    let mut world = full();
    let at = |world: &World| {
        let node = world.engine.cluster.nominations.node_of("uid-p");
        node.map(|node| world.engine.cluster.names.text(node).to_string()).unwrap_or_default()
    };
    world.pod("p", "cpu=1 priority=5 gate:g");
    let p = info(&mut world, "p", "cpu=1 priority=5 gate:g");
    let [n1, n2] = ["n1", "n2"].map(|name| world.engine.cluster.names.intern(name));
    world.engine.cluster.nominations.decide(&p, n1, Vec::new());
    // Before the write the API does not show the nomination.
    world.pod("p", "cpu=1 priority=5 gate:g version=20");
    assert_eq!(at(&world), "n1");
    world.engine.nominated("uid-p", 30);
    world.pod("p", "cpu=1 priority=5 gate:g version=29 nominated=n2");
    assert_eq!(at(&world), "n1");
    world.pod("p", "cpu=1 priority=5 gate:g version=31 nominated=n2");
    assert_eq!(at(&world), "n2", "somebody else has nominated it since");
    world.pod("p", "cpu=1 priority=5 gate:g version=32");
    assert_eq!(at(&world), "");
    // A nomination that is never written is removed; one that the API shows stays.
    world.engine.cluster.nominations.decide(&p, n2, Vec::new());
    world.engine.withdraw("uid-p", world.now);
    assert_eq!(at(&world), "");
    world.pod("p", "cpu=1 priority=5 gate:g version=33 nominated=n1");
    world.engine.withdraw("uid-p", world.now);
    assert_eq!(at(&world), "n1");
    world.pod("p", "cpu=1 priority=5 node=n1 version=34");
    assert!(world.engine.cluster.nominations.is_empty());
}

#[test]
fn a_preemption_that_stops_half_way_keeps_the_room_that_its_victims_leave() {
    let mut world = full();
    world.pod("high", "cpu=2 priority=9");
    let Some(Decision::Preempt { popped, .. }) = world.step() else { panic!("it has to preempt") };
    // The nomination is written, one victim is deleted, and the other victim's eviction is uncertain.
    gone(&mut world, "v1");
    world.engine.stopped_half_way(&popped.pod.uid, 50);
    world.engine.withdraw(&popped.pod.uid, world.now);
    let ignorant = info(&mut world, "lower", "cpu=1 priority=1");
    assert_eq!(refusal(world.engine.judge(&ignorant, "n1", world.now)), "Nominated");
    let again = world.engine.judge_preemption(&popped.pod, "n1", &[Arc::from("uid-v2")]);
    assert!(refusal(again).starts_with("Ok"), "it waits for nobody");
}

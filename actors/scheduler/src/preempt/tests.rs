//! Tests of preemption: the choice of the node, the spared pods, and budgets.

use std::sync::Arc;

use crate::cluster::Budget;
use crate::column::NodeIx;
use crate::engine::{Authority, Decision};
use crate::framework::Call;
use crate::intern::Interner;
use crate::model::PodInfo;
use crate::testing::{World, pod, selector};

use super::candidates::enough;
use super::choice::{Candidate, best};

/// Builds a candidate with victims given as `priority/started`, the most important first.
fn candidate(node: u32, violations: usize, victims: &str) -> Candidate {
    let mut names = Interner::default();
    let victim = |(at, text): (usize, &str)| {
        let (priority, started) = text.split_once('/').unwrap_or((text, "1"));
        Arc::new(pod(&mut names, &format!("v{node}-{at}"), &format!("priority={priority} started={started}")))
    };
    let victims = victims.split_whitespace().enumerate().map(victim).collect();
    Candidate { node: NodeIx(node), victims, violations }
}

/// Violations and victims per node; the index of the chosen node; the reason.
type Case = (&'static [(usize, &'static str)], u32, &'static str);

#[test]
fn the_cheapest_candidate_is_chosen_and_each_tie_is_broken_by_the_next_criterion() {
    let cases: [Case; 9] = [
        (&[(0, "900 900 900"), (1, "1")], 0, "a violated budget weighs more than anything"),
        (&[(2, "1"), (1, "900")], 1, "fewer violations"),
        (&[(0, "20"), (0, "10 10 10")], 1, "the lowest of the highest priorities"),
        (&[(0, "10 9"), (0, "10 5")], 1, "the lowest sum"),
        (&[(0, "10 -100 -100"), (0, "10 5")], 1, "many pods of negative priority are not cheaper than one"),
        (&[(0, "-5 -5"), (0, "-5")], 1, "the fewest"),
        (&[(0, "10/5 3/9"), (0, "10/7 3/1")], 1, "whose most important victims have run the shortest"),
        (&[(0, "10/9 10/2"), (0, "10/3 10/3")], 1, "by the one of them that started first"),
        (&[(0, "10/5"), (0, "10/5")], 0, "the first"),
    ];
    for (nodes, chosen, why) in cases {
        let candidates =
            nodes.iter().zip(0..).map(|((violations, victims), node)| candidate(node, *violations, victims));
        assert_eq!(best(candidates.collect()).map(|best| best.node), Some(NodeIx(chosen)), "{why}");
    }
    assert_eq!(best(Vec::new()), None);
}

#[test]
fn a_tenth_of_the_nodes_is_enough_but_a_hundred_at_least() {
    assert_eq!([1, 99, 100, 500, 1_000, 1_009, 5_000].map(enough), [1, 99, 100, 100, 100, 100, 500]);
}

/// Checks the result for a pod: `node: victim victim`, or the message.
#[track_caller]
fn preempts(world: &mut World, text: &str, wanted: &str) {
    let name = format!("incoming-{}", world.seed);
    world.pod(&name, text);
    let found = match world.step().unwrap() {
        Decision::Preempt { popped, node, calls, unfit, .. } => {
            let evicted = calls.iter().filter_map(|call| if let Call::Evict(pods) = call { Some(pods) } else { None });
            let names: Vec<&str> = evicted.flatten().map(|pod| &*pod.name).collect();
            assert!(!unfit.message.contains("preemption"), "{}", unfit.message);
            world.engine.withdraw(&popped.pod.uid, world.now);
            format!("{node}: {}", names.join(" "))
        }
        Decision::Unschedulable { message, .. } => message.split_once("preemption: ").unwrap().1.to_owned(),
        Decision::Bind { node, .. } => format!("bound to {node}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(found, wanted, "{text}");
    world.engine.on_pod_gone(&format!("uid-{name}"), world.now);
}

/// Returns a world with nodes of four cores.
fn world(nodes: usize, pods: &[(&str, &str)]) -> World {
    let mut world = World::new(&[]);
    for number in 1..=nodes {
        world.node(&format!("n{number}"), "cpu=4 memory=8Gi pods=10");
    }
    for (name, text) in pods {
        world.pod(name, text);
    }
    world
}

#[test]
fn as_many_as_will_do_are_spared_the_most_important_first() {
    let mut one = world(
        1,
        &[
            ("high", "cpu=1 priority=50 node=n1"),
            ("older", "cpu=1 priority=10 started=100 node=n1"),
            ("younger", "cpu=1 priority=10 started=200 node=n1"),
            ("unstarted", "cpu=1 priority=10 node=n1"),
        ],
    );
    preempts(&mut one, "cpu=1 priority=100", "n1: unstarted");
    preempts(&mut one, "cpu=2 priority=100", "n1: younger unstarted");
    preempts(&mut one, "cpu=3 priority=100", "n1: older younger unstarted");
    preempts(&mut one, "cpu=4 priority=100", "n1: high older younger unstarted");
    // Only pods of lower priority may be evicted.
    preempts(&mut one, "cpu=3 priority=50", "n1: older younger unstarted");
    preempts(&mut one, "cpu=4 priority=50", "0/1 nodes are available: 1 Insufficient cpu.");
    preempts(&mut one, "cpu=1 priority=10", "0/1 nodes are available: 1 No preemption victims found for incoming pod.");
    preempts(&mut one, "cpu=5 priority=100", "0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    preempts(&mut one, "cpu=1 priority=100 never", "not eligible due to preemptionPolicy=Never.");
    // The small pod is spared where evicting the large one suffices, in either order.
    let mut sizes = world(1, &[("large", "cpu=3 priority=2 node=n1"), ("small", "cpu=1 priority=1 node=n1")]);
    preempts(&mut sizes, "cpu=3 priority=5", "n1: large");
}

#[test]
fn ports_and_anti_affinity_are_reasons_to_leave_too() {
    let mut one = world(
        1,
        &[
            ("port", "port:80 priority=5 node=n1"),
            ("foe", "label:app=a apart:host/app=b priority=4 node=n1"),
            ("bystander", "cpu=1 priority=1 node=n1"),
        ],
    );
    preempts(&mut one, "port:80 priority=9", "n1: port");
    preempts(&mut one, "label:app=b priority=9", "n1: foe");
    preempts(&mut one, "label:app=c apart:host/app=a priority=9", "n1: foe");
    preempts(
        &mut one,
        "label:app=c near:host/app=z priority=9",
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    );
}

#[test]
fn of_several_nodes_the_cheapest_is_taken_and_the_others_say_why_not() {
    let mut three = world(
        3,
        &[("a", "cpu=4 priority=5 node=n1"), ("b", "cpu=4 priority=3 node=n2"), ("c", "cpu=4 priority=9 node=n3")],
    );
    preempts(&mut three, "cpu=1 priority=9", "n2: b");
    three.node("n4", "cpu=4 cordoned");
    three.pod("d", "cpu=2 priority=1 node=n1");
    preempts(
        &mut three,
        "cpu=3 priority=2",
        "0/4 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
    );
}

fn budget(world: &mut World, name: &str, labels: &str, allowed: i64, disrupted: &[&str]) {
    let names = &mut world.engine.cluster.names;
    let (namespace, name) = (names.intern("default"), names.intern(name));
    let selector = selector(names, labels);
    let disrupted = disrupted.iter().map(|name| Box::from(*name)).collect();
    world.engine.cluster.budgets.set(namespace, name, Some(Budget { selector, allowed, disrupted }));
}

#[test]
fn whom_a_budget_protects_is_spared_before_the_more_important() {
    let pods =
        [("kept", "cpu=2 priority=1 label:app=kept node=n1"), ("free", "cpu=2 priority=7 label:app=free node=n1")];
    let mut one = world(1, &pods);
    preempts(&mut one, "cpu=2 priority=9", "n1: kept");
    budget(&mut one, "b", "app=kept", 0, &[]);
    preempts(&mut one, "cpu=2 priority=9", "n1: free");
    // Budgets are best effort: without another victim the protected pod is evicted.
    preempts(&mut one, "cpu=4 priority=9", "n1: free kept");
    budget(&mut one, "b", "app=kept", 1, &[]);
    preempts(&mut one, "cpu=2 priority=9", "n1: kept");
    budget(&mut one, "b", "app=kept", 0, &["kept"]);
    preempts(&mut one, "cpu=2 priority=9", "n1: kept");
    // Neither an empty nor an absent selector selects a pod.
    for nothing in ["*", "-"] {
        budget(&mut one, "b", nothing, 0, &[]);
        preempts(&mut one, "cpu=2 priority=9", "n1: kept");
    }
    // No selector selects a pod without labels, or one of another namespace.
    let mut bare = world(1, &[("bare", "cpu=2 priority=1 node=n1"), ("free", "cpu=2 priority=7 node=n1")]);
    budget(&mut bare, "b", "!app", 0, &[]);
    preempts(&mut bare, "cpu=2 priority=9", "n1: bare");
    let mut away = world(1, &[("kept", "ns=red cpu=2 priority=1 label:app=kept node=n1"), pods[1]]);
    budget(&mut away, "b", "app=kept", 0, &[]);
    preempts(&mut away, "cpu=2 priority=9", "n1: kept");
}

#[test]
fn a_budget_is_spent_by_each_pod_in_turn_and_counts_between_nodes() {
    let app = |name: &'static str, node: &str, priority: i32| {
        (name, format!("cpu=2 priority={priority} label:app=a node={node}"))
    };
    let pods = [app("a1", "n1", 3), app("a2", "n1", 2), app("b1", "n2", 5), app("b2", "n2", 4)];
    let mut two = world(2, &[]);
    pods.iter().for_each(|(name, text)| drop(two.pod(name, text)));
    // One disruption is allowed: the most important pod uses it, so the other pod is protected.
    budget(&mut two, "b", "app=a", 1, &[]);
    preempts(&mut two, "cpu=2 priority=9", "n1: a1");
    // On either node evicting both pods exceeds the budget by one.
    preempts(&mut two, "cpu=4 priority=9", "n1: a1 a2");
    // A node that violates nothing is better than one of lower priorities.
    two.pod("c", "cpu=4 priority=8 node=n3");
    two.node("n3", "cpu=4 memory=8Gi pods=10");
    preempts(&mut two, "cpu=4 priority=9", "n3: c");
    // A pod that two budgets match uses a disruption of both.
    let names = &two.engine.cluster.names.clone();
    budget(&mut two, "all", "app", 0, &[]);
    let info = |name: &str| Arc::clone(&two.engine.cluster.placed(&format!("uid-{name}")).unwrap().info);
    let (protected, others) = two.engine.cluster.budgets.part(vec![info("a1"), info("c")], names);
    let names = |pods: Vec<Arc<PodInfo>>| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(protected), names(others)), (vec!["a1".to_owned()], vec!["c".to_owned()]));
}

#[test]
fn so_many_candidates_are_looked_for_as_upstream_does_and_from_any_node_on() {
    let mut large = world(300, &[]);
    for number in 1..=300 {
        // Later nodes are cheaper.
        large.pod(&format!("p{number}"), &format!("cpu=4 priority={} node=n{number}", 1_000 - number));
    }
    let mut chosen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        large.seed = seed;
        large.pod("incoming", "cpu=4 priority=2000");
        let Some(Decision::Preempt { popped, node, .. }) = large.step() else { panic!("no preemption") };
        chosen.insert(node);
        large.engine.withdraw(&popped.pod.uid, large.now);
        large.engine.on_pod_gone("uid-incoming", large.now);
    }
    // Among all three hundred nodes the last would always be chosen; among a hundred consecutive nodes the choice depends on the random start.
    assert!(chosen.len() > 5, "{chosen:?}");
}

#[test]
fn nothing_is_left_of_a_search() {
    let mut two = world(
        2,
        &[
            ("a", "cpu=3 priority=1 label:app=x port:80 apart:host/app=y node=n1"),
            ("b", "cpu=2 priority=2 label:app=x spread:host/1/app=x node=n2"),
            ("n", "cpu=1 priority=50 nominated=n2"),
        ],
    );
    two.engine.queue.remove("uid-n");
    let before = (two.engine.cluster.dump(), two.engine.cluster.sequence());
    for text in ["cpu=4 priority=9", "cpu=9 priority=9", "port:80 cpu=4 label:app=y priority=9"] {
        let pod = two.pod("incoming", text);
        let decision = two.engine.next(Authority::Local(()), two.now, &mut |_| 0);
        assert!(!matches!(decision, None | Some(Decision::Bind { .. })), "{decision:?}");
        two.engine.withdraw(&pod.uid, two.now);
        two.engine.on_pod_gone(&pod.uid, two.now);
        assert_eq!(two.engine.cluster.sequence(), before.1, "no class has to look again");
        let after = two.engine.cluster.dump();
        for (key, value) in &before.0 {
            assert_eq!(after.get(key), Some(value), "{text}: {key}");
        }
    }
}

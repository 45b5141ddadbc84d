//! Texts recorded from a live kube-scheduler 1.35.

use crate::testing::World;

const HELPLESS: &str =
    "no new claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.";

fn five() -> World {
    let labels =
        |disk, zone| format!("cpu=2 memory=4Gi ephemeral-storage=10Gi pods=3 label:zone={zone} label:disk={disk}");
    let mut world = World::new(&[]);
    world.node("n1", &format!("{} taint:team=a:NoSchedule", labels("d1", "z1")));
    world.node("n2", &format!("{} cordoned", labels("d2", "z0")));
    world.node("n3", &labels("d0", "z1"));
    world.node("n4", &labels("d1", "z0"));
    world.node("n5", &labels("d2", "z1"));
    world
}

#[track_caller]
fn says(world: &mut World, pod: &str, reasons: &str, rest: &str) {
    let message =
        world.try_pod(pod.split_whitespace().next().unwrap_or("p"), pod.split_once(' ').map_or("", |pair| pair.1));
    assert_eq!(message, format!("0/5 nodes are available: {reasons}. {rest}"));
}

const TWO: &str = "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable";

#[test]
fn reasons_are_counted_and_sorted_as_text() {
    let mut world = five();
    says(&mut world, "p-cpu cpu=3", &format!("{TWO}, 3 Insufficient cpu"), HELPLESS);
    says(
        &mut world,
        "p-both cpu=3 memory=8Gi example.com/gpu=1",
        &format!("{TWO}, 3 Insufficient cpu, 3 Insufficient example.com/gpu, 3 Insufficient memory"),
        HELPLESS,
    );
    says(
        &mut world,
        "p-sel select:disk=nope",
        &format!("{TWO}, 3 node(s) didn't match Pod's node affinity/selector"),
        HELPLESS,
    );
    says(&mut world, "p-aff near:zone/x=y", &format!("{TWO}, 3 node(s) didn't match pod affinity rules"), HELPLESS);
    says(
        &mut world,
        "p-spread label:s=s spread:norack/1/s=s/3",
        &format!("{TWO}, 3 node(s) didn't match pod topology spread constraints (missing required label)"),
        HELPLESS,
    );
}

#[test]
fn nodes_ruled_out_by_name_are_counted_apart() {
    let mut world = five();
    says(&mut world, "p-names need:name=nx", "5 node(s) didn't satisfy plugin(s) [NodeAffinity]", HELPLESS);
    says(
        &mut world,
        "p-names2 need:name=n1",
        "1 node(s) had untolerated taint(s), 4 node(s) didn't satisfy plugin(s) [NodeAffinity]",
        HELPLESS,
    );
    says(&mut world, "p-conf need:name=n1,name=n2", "pod affinity terms conflict", "not found");
}

#[test]
fn preemption_tells_nodes_without_victims_from_hopeless_ones() {
    let mut world = five();
    let apart = "label:a=a apart:zone/a=a";
    let rest = "no new claims to deallocate, preemption: 0/5 nodes are available: 2 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod.";
    world.pod("f1", &format!("{apart} node=n4"));
    world.pod("f2", &format!("{apart} node=n3"));
    says(&mut world, &format!("f3 {apart}"), &format!("{TWO}, 3 node(s) didn't match pod anti-affinity rules"), rest);
    says(
        &mut world,
        "g1 label:a=a",
        &format!("{TWO}, 3 node(s) didn't satisfy existing pods anti-affinity rules"),
        rest,
    );
    for (name, node) in [("g2", "n3"), ("g3", "n4"), ("g4", "n5")] {
        world.pod(name, &format!("port:81 node={node}"));
    }
    says(
        &mut world,
        "h1 port:81",
        &format!("{TWO}, 3 node(s) didn't have free ports for the requested pod ports"),
        rest,
    );
    says(
        &mut world,
        "h2 port:81 never",
        &format!("{TWO}, 3 node(s) didn't have free ports for the requested pod ports"),
        "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
    );
}

#[test]
fn no_nodes_at_all_has_its_own_text() {
    assert_eq!(World::new(&[]).try_pod("z1", ""), "no nodes available to schedule pods");
}

#[test]
fn long_texts_are_cut_to_what_an_event_holds() {
    assert_eq!(crate::texts::note("short"), "short");
    let cut = crate::texts::note(&"é".repeat(1000));
    assert!(cut.len() <= 1024 && cut.ends_with(" ..."));
}

//! Tests of the plugins, one table each: the nodes that fit, and their scores. Expected scores are computed by hand from
//! upstream's formulas; totals are sums over the default weights, without constant parts.

use crate::testing::World;

#[track_caller]
fn fits(world: &mut World, pod: &str, nodes: &str) {
    assert_eq!(world.fits(pod), nodes, "pod: {pod}");
}

#[track_caller]
fn totals(world: &mut World, pod: &str, expected: &[(&str, i32)]) {
    let found = world.totals(pod);
    let found: Vec<(&str, i32)> = found.iter().map(|(name, total)| (&**name, *total)).collect();
    assert_eq!(found, expected, "pod: {pod}");
}

const BIG: &str = "cpu=10 memory=10Gi";

#[test]
fn node_name_fits_that_node_only() {
    let mut world = World::new(&[("a", BIG), ("b", BIG)]);
    fits(&mut world, "wants=b", "b");
    fits(&mut world, "wants=c", "");
}

#[test]
fn cordoned_nodes_take_only_pods_that_tolerate_it() {
    let mut world = World::new(&[("a", BIG), ("b", "cpu=10 memory=10Gi cordoned")]);
    fits(&mut world, "", "a");
    fits(&mut world, "tolerate:node.kubernetes.io/unschedulable:NoSchedule", "a b");
    fits(&mut world, "tolerate:*", "a b");
}

#[test]
fn taints_need_a_toleration_of_key_value_and_effect() {
    let mut world = World::new(&[
        ("a", BIG),
        ("b", "cpu=10 memory=10Gi taint:k=v:NoSchedule"),
        ("c", "cpu=10 memory=10Gi taint:k=v:NoExecute"),
        ("d", "cpu=10 memory=10Gi taint:k=v:PreferNoSchedule"),
    ]);
    fits(&mut world, "", "a d");
    fits(&mut world, "tolerate:k=v:NoSchedule", "a b d");
    fits(&mut world, "tolerate:k=other:NoSchedule", "a d");
    fits(&mut world, "tolerate:k", "a b c d");
    fits(&mut world, "tolerate:k=v", "a b c d");
    fits(&mut world, "tolerate:j", "a d");
}

#[test]
fn untolerated_soft_taints_cost_score_in_proportion() {
    let soft = |count: usize| {
        let taints: Vec<String> = (0..count).map(|at| format!("taint:k{at}=v:PreferNoSchedule")).collect();
        format!("{BIG} {}", taints.join(" "))
    };
    let mut world = World::new(&[("a", BIG), ("b", &soft(1)), ("c", &soft(2))]);
    // Least allocated: cpu (10000-100)*100/10000 = 99, memory (10240-200)*100/10240 = 98, mean 98.
    totals(&mut world, "", &[("a", 98 + 300), ("b", 98 + 150), ("c", 98)]);
    totals(&mut world, "tolerate:k1", &[("a", 98 + 300), ("b", 98), ("c", 98)]);
    totals(&mut world, "tolerate:*", &[("a", 98), ("b", 98), ("c", 98)]);
}

#[test]
fn resources_must_be_free_and_a_pod_slot_too() {
    let mut world =
        World::new(&[("a", "cpu=2 memory=2Gi"), ("b", "cpu=1 memory=4Gi pods=1"), ("c", "cpu=2 memory=2Gi gpu=1")]);
    world.pod("x", "cpu=1500m node=a");
    world.pod("y", "node=b");
    fits(&mut world, "", "a c");
    fits(&mut world, "cpu=500m", "a c");
    fits(&mut world, "cpu=501m", "c");
    fits(&mut world, "memory=2Gi", "a c");
    fits(&mut world, "gpu=1", "c");
    fits(&mut world, "gpu=2", "");
    fits(&mut world, "ephemeral-storage=1", "");
}

#[test]
fn emptier_and_better_balanced_nodes_score_more() {
    let mut world = World::new(&[("a", "cpu=4 memory=4Gi"), ("b", "cpu=8 memory=4Gi")]);
    world.pod("x", "cpu=1 memory=1Gi node=a");
    // a: cpu (4000-3000)/4000 = 25, memory (4096-2048)/4096 = 50, mean 37; |3/4 - 1/2|/2 = 0.125 → 87.
    // b: cpu (8000-2000)/8000 = 75, memory (4096-1024)/4096 = 75, mean 75; |1/4 - 1/4| = 0 → 100.
    totals(&mut world, "cpu=2 memory=1Gi", &[("a", 37 + 87), ("b", 75 + 100)]);
    // Nothing requested: no balance score; 100m and 200Mi count as requested.
    // a: cpu (4000-1100)*100/4000 = 72, memory (4096-1224)*100/4096 = 70, mean 71. b: 98 and 95, mean 96.
    totals(&mut world, "", &[("a", 71), ("b", 96)]);
}

#[test]
fn node_selector_and_required_affinity_must_both_match() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:disk=ssd label:gen=3"),
        ("b", "cpu=10 memory=10Gi label:disk=hdd label:gen=5"),
        ("c", "cpu=10 memory=10Gi label:gen=x"),
    ]);
    fits(&mut world, "select:disk=ssd", "a");
    fits(&mut world, "need:disk~ssd|hdd", "a b");
    fits(&mut world, "need:disk!=ssd", "b c");
    fits(&mut world, "need:disk", "a b");
    fits(&mut world, "need:!disk", "c");
    fits(&mut world, "need:gen>3", "b");
    fits(&mut world, "need:gen<5", "a");
    fits(&mut world, "need:disk=ssd need:disk=hdd", "a b");
    fits(&mut world, "select:disk=ssd need:disk=hdd", "");
    fits(&mut world, "need:name=a", "a");
    fits(&mut world, "need:name!=a", "b c");
    fits(&mut world, "need:name=a,disk=hdd", "");
    fits(&mut world, "need:name=a,name=b", "");
}

#[test]
fn preferred_node_affinity_scores_by_weight() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:disk=ssd label:zone=1"),
        ("b", "cpu=10 memory=10Gi label:disk=ssd"),
        ("c", BIG),
    ]);
    // Sums 8, 5, 0, normalised to 100, 62, 0, weight 2.
    totals(&mut world, "prefer:5:disk=ssd prefer:3:zone=1", &[("a", 98 + 200), ("b", 98 + 124), ("c", 98)]);
    totals(&mut world, "prefer:5:disk=none", &[("a", 98), ("b", 98), ("c", 98)]);
}

#[test]
fn host_ports_clash_by_port_and_address() {
    let mut world = World::new(&[("a", BIG), ("b", BIG), ("c", BIG)]);
    world.pod("x", "port:80 node=a");
    world.pod("y", "port:80@10.0.0.1 node=b");
    fits(&mut world, "port:80", "c");
    fits(&mut world, "port:80@10.0.0.1", "c");
    fits(&mut world, "port:80@10.0.0.2", "b c");
    fits(&mut world, "port:81", "a b c");
}

#[test]
fn required_affinity_joins_the_domain_of_matching_pods() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:zone=1"),
        ("b", "cpu=10 memory=10Gi label:zone=1"),
        ("c", "cpu=10 memory=10Gi label:zone=2"),
        ("d", BIG),
    ]);
    fits(&mut world, "near:zone/app=x", "");
    // A pod that matches its own term may start the group, where the topology label is.
    fits(&mut world, "label:app=x near:zone/app=x", "a b c");
    world.pod("x", "label:app=x node=a");
    fits(&mut world, "near:zone/app=x", "a b");
    fits(&mut world, "near:host/app=x", "a");
    fits(&mut world, "near:zone/app=x near:zone/role=y", "");
    fits(&mut world, "ns=other near:zone/app=x", "");
    fits(&mut world, "ns=other near:zone/app=x/default", "a b");
    fits(&mut world, "near:zone/-", "");
    fits(&mut world, "near:zone/*", "a b");
}

#[test]
fn anti_affinity_works_both_ways() {
    let mut world =
        World::new(&[("a", "cpu=10 memory=10Gi label:zone=1"), ("b", "cpu=10 memory=10Gi label:zone=2"), ("c", BIG)]);
    world.pod("x", "label:app=x node=a");
    fits(&mut world, "apart:zone/app=x", "b c");
    world.pod("y", "apart:zone/app=z node=b");
    fits(&mut world, "label:app=z", "a c");
    fits(&mut world, "ns=other label:app=z", "a b c");
    world.engine.on_pod_gone("uid-y", world.now);
    fits(&mut world, "label:app=z", "a b c");
}

#[test]
fn namespace_selectors_follow_the_labels_of_namespaces() {
    let mut world = World::new(&[("a", "cpu=10 memory=10Gi label:zone=1"), ("b", "cpu=10 memory=10Gi label:zone=2")]);
    world.pod("x", "ns=red label:app=x node=a");
    let pod = "apart:zone/app=x/@team=one";
    fits(&mut world, pod, "a b");
    let red = world.cluster().names.intern("red");
    let labels = |world: &mut World, value: &str| {
        let names = &mut world.cluster().names;
        crate::labels::Labels::new(vec![(names.intern("team"), names.intern(value))])
    };
    let one = labels(&mut world, "one");
    world.cluster().set_namespace(red, Some(one));
    fits(&mut world, pod, "b");
    let two = labels(&mut world, "two");
    world.cluster().set_namespace(red, Some(two));
    fits(&mut world, pod, "a b");
    fits(&mut world, "apart:zone/app=x/@*", "b");
}

#[test]
fn preferred_pod_affinity_scores_both_ways() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:zone=1"),
        ("b", "cpu=10 memory=10Gi label:zone=2"),
        ("c", "cpu=10 memory=10Gi label:zone=3"),
    ]);
    world.pod("x", "label:app=x node=a");
    world.pod("y", "like:10:zone/app=z node=b");
    // Every pod counts 100m and 200Mi: an empty node has 98, one with a pod cpu 98, memory 96 → 97.
    totals(&mut world, "like:5:zone/app=x", &[("a", 97 + 200), ("b", 97), ("c", 98)]);
    totals(&mut world, "like:-5:zone/app=x", &[("a", 97), ("b", 97 + 200), ("c", 98 + 200)]);
    totals(&mut world, "label:app=z", &[("a", 97), ("b", 97 + 200), ("c", 98)]);
    // Required affinity of a placed pod weighs 1: sums 1, 10, 0 → 10, 100, 0.
    world.pod("w", "label:app=x near:zone/app=x,!q node=a");
    totals(&mut world, "label:app=z like:1:zone/app=q", &[("a", 95), ("b", 97 + 200), ("c", 98)]);
}

#[test]
fn hard_spread_keeps_the_skew() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:zone=1"),
        ("b", "cpu=10 memory=10Gi label:zone=1"),
        ("c", "cpu=10 memory=10Gi label:zone=2"),
        ("d", BIG),
    ]);
    let pod = "label:app=x spread:zone/1/app=x";
    fits(&mut world, pod, "a b c");
    world.pod("x1", "label:app=x node=a");
    fits(&mut world, pod, "c");
    world.pod("x2", "label:app=x node=c");
    fits(&mut world, pod, "a b c");
    world.pod("x3", "label:app=x node=c");
    fits(&mut world, pod, "a b");
    fits(&mut world, "label:app=x spread:zone/2/app=x", "a b c");
    fits(&mut world, "label:app=x spread:zone/1/app=x spread:host/1/app=x", "b");
    // Terminating pods are not counted.
    world.pod("x3", "label:app=x node=c terminating version=2");
    fits(&mut world, pod, "a b c");
    // With fewer domains than wanted the least is 0, so a zone with one pod takes no second one.
    fits(&mut world, "label:app=x spread:zone/1/app=x/3", "");
    // Only nodes that the pod may use are counted.
    fits(&mut world, "label:app=x select:zone=1 spread:zone/1/app=x", "a b");
}

#[test]
fn tainted_domains_leave_the_count_when_taints_are_honoured() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:zone=1"),
        ("b", "cpu=10 memory=10Gi label:zone=2 taint:k=v:NoSchedule"),
    ]);
    world.pod("x1", "label:app=x node=a");
    fits(&mut world, "label:app=x spread:zone/1/app=x", "");
    fits(&mut world, "label:app=x spread:zone/1/app=x/1/taints", "a");
}

#[test]
fn soft_spread_prefers_domains_with_fewer_pods() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:zone=1"),
        ("b", "cpu=10 memory=10Gi label:zone=2"),
        ("c", "cpu=10 memory=10Gi label:zone=2"),
        ("d", BIG),
    ]);
    world.pod("x1", "label:app=x node=b");
    // Two domains: a pod weighs ln(4) = 1.386. Raw a 0, b and c 1, d left out. 100*(1+0-s)/1.
    totals(&mut world, "label:app=x softspread:zone/1/app=x", &[("a", 98 + 200), ("b", 97), ("c", 98), ("d", 98)]);
}

#[test]
fn default_spread_follows_services_and_owners() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi label:topology.kubernetes.io/zone=1"),
        ("b", "cpu=10 memory=10Gi label:topology.kubernetes.io/zone=2"),
    ]);
    world.pod("x1", "label:app=x node=b");
    totals(&mut world, "label:app=x", &[("a", 98), ("b", 97)]);
    let names = &mut world.cluster().names;
    let (namespace, service) = (names.intern("default"), names.intern("svc"));
    let labels = crate::labels::Labels::new(vec![(names.intern("app"), names.intern("x"))]);
    world.cluster().owners.set_service(namespace, service, Some(labels));
    // Raw: hostname count*ln(4)+2, zone count*ln(4)+4: a 6, b 8.77 → 9. a 100*(9+6-6)/9 = 100, b 66.
    totals(&mut world, "label:app=x", &[("a", 98 + 200), ("b", 97 + 132)]);
    world.cluster().owners.set_service(namespace, service, None);
    totals(&mut world, "label:app=x", &[("a", 98), ("b", 97)]);
}

#[test]
fn images_at_hand_score_by_size_and_spread() {
    let mut world = World::new(&[
        ("a", "cpu=10 memory=10Gi image:x=1000Mi image:y=20Mi"),
        ("b", "cpu=10 memory=10Gi image:x=1000Mi"),
        ("c", BIG),
        ("d", BIG),
    ]);
    // 1000Mi on half of the nodes counts 500Mi: (500-23)*100/(1000-23) = 48.
    totals(&mut world, "image:x", &[("a", 98 + 48), ("b", 98 + 48), ("c", 98), ("d", 98)]);
    // Two containers: (500-23)*100/(2000-23) = 24; 5Mi of y add 0.25.
    totals(&mut world, "image:x image:y", &[("a", 98 + 24), ("b", 98 + 24), ("c", 98), ("d", 98)]);
    totals(&mut world, "image:y", &[("a", 98), ("b", 98), ("c", 98), ("d", 98)]);
}

//! Which nodes run a pod, and which pod of a node is kept.

use oarlock_informer::{Cache, Change, Item, Key, Project};
use oarlock_meta::Revision;
use oarlock_pods::Effect;
use serde_json::{Value, json};

use super::super::placement::{Placement, enqueue_concerned, placement};
use super::super::snapshot::Snapshot;
use super::super::status::{count, differs};
use super::{HASH, NOW, Node, nodes, planned, pods, set, tolerates};
use crate::project::{DaemonSet, DaemonSetState};

/// Reads a set whose template has this pod specification.
fn of_spec(spec: &Value) -> Item<DaemonSet> {
    let template = json!({"metadata": {"labels": {"app": "log"}}, "spec": spec});
    let spec = json!({"selector": {"matchLabels": {"app": "log"}}, "template": template});
    let json = json!({"metadata": {"name": "log", "namespace": "ns", "uid": "set"}, "spec": spec});
    let ty = DaemonSet::RESOURCE.find().unwrap().ty;
    Item::of(&oarlock_client::decode(ty, json.to_string().as_bytes()).unwrap(), Revision(1))
}

#[test]
fn a_pod_runs_where_name_labels_and_taints_allow_it() {
    use Placement::{Excluded, Runs, Stays};
    let affinity = |values: &[&str]| {
        let term = json!({"matchExpressions": [{"key": "name", "operator": "In", "values": values}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
    };
    let tolerating = |effect: &str| json!({"tolerations": [{"key": "x", "operator": "Exists", "effect": effect}]});
    for (spec, node, expected) in [
        (json!({}), "a", Runs),
        (json!({"nodeName": "a"}), "a", Runs),
        (json!({"nodeName": "b"}), "a", Excluded),
        (json!({"nodeSelector": {"name": "a"}}), "a", Runs),
        (json!({"nodeSelector": {"name": "b"}}), "a", Excluded),
        (json!({"nodeSelector": {"name": "b"}}), "a: x:NoSchedule", Excluded),
        (json!({"affinity": affinity(&["a", "c"])}), "a", Runs),
        (json!({"affinity": affinity(&["b"])}), "a", Excluded),
        (json!({}), "a: x:NoSchedule", Stays),
        (json!({}), "a: x:NoExecute", Excluded),
        (json!({}), "a: x:PreferNoSchedule", Runs),
        (json!({}), "a: x:NoSchedule y:NoExecute", Excluded),
        (tolerating("NoSchedule"), "a: x:NoSchedule", Runs),
        (tolerating("NoSchedule"), "a: x:NoExecute", Excluded),
        (tolerating(""), "a: x:NoSchedule x:NoExecute", Runs),
        (tolerating(""), "a: x:NoExecute y:NoSchedule", Stays),
        (json!({}), "a: node.kubernetes.io/not-ready:NoExecute node.kubernetes.io/unreachable:NoExecute", Runs),
        (json!({}), "a: node.kubernetes.io/not-ready:NoSchedule", Stays),
        (json!({}), "a: node.kubernetes.io/unschedulable:NoSchedule", Runs),
        (json!({}), "a: node.kubernetes.io/network-unavailable:NoSchedule", Stays),
        (json!({"hostNetwork": true}), "a: node.kubernetes.io/network-unavailable:NoSchedule", Runs),
    ] {
        let nodes = nodes(node);
        assert_eq!(placement(&of_spec(&spec).value, &nodes[0]), expected, "{spec} on {node}");
    }
}

#[test]
fn each_node_that_is_to_run_a_pod_gets_one_and_others_lose_theirs() {
    let set = set(|_| {});
    for (on, present, expected) in [
        ("a, b", "", "+a +b"),
        ("a, b", "a1: ok", "+b"),
        ("a, b", "a1: unbound, b1: pending", ""),
        ("a: x:NoSchedule", "", ""),
        ("a: x:NoSchedule", "a1: ok", ""),
        ("a: x:NoExecute", "a1: ok", "-a1"),
        ("a: x:NoExecute", "a1: going", ""),
        ("a: x:NoExecute", "a1: failed, a2: ok", "-a1 -a2"),
        // The next pod is created when the former has ended.
        ("a", "a1: going", ""),
        ("a", "a1: going failed", "+a"),
        ("a", "a1: succeeded", "+a -a1."),
        ("a: x:NoSchedule", "a1: succeeded", "-a1."),
        // A pod of a node that does not exist is deleted unless it is bound.
        ("a", "a1: ok, b1: unbound", "-b1"),
        ("a", "a1: ok, b1: ok", ""),
    ] {
        assert_eq!(planned(&set, on, present), expected, "{present:?} on {on}");
    }
}

#[test]
fn of_two_pods_on_a_node_the_bound_or_else_the_older_one_stays() {
    let set = set(|_| {});
    for (present, expected) in [
        ("a1: ok, a2: ok", "-a2"),
        ("a2: ok, a1: younger", "-a1"),
        ("a1: unbound, a2: younger", "-a1"),
        ("a1: unbound younger, a2: unbound", "-a1"),
        ("a1: ok, a2: ok, a3: ok", "-a2 -a3"),
        ("a1: going, a2: ok", ""),
        ("a1: unready, a2: younger", "-a2"),
    ] {
        assert_eq!(planned(&set, "a", present), expected, "{present}");
        let tainted = planned(&set, "a: x:NoSchedule", present);
        assert_eq!(tainted, expected, "{present}, where no new pod is created");
    }
}

#[test]
fn a_reconcile_creates_and_deletes_so_many_pods_at_most() {
    let many: Vec<String> = (0..600).map(|number| format!("n{number}")).collect();
    let (set, nodes) = (set(|_| {}), nodes(&many.join(", ")));
    let plan = super::plan(&Snapshot::of(&set, HASH, (&nodes, &[]), NOW));
    assert_eq!((plan.create.len(), plan.delete.len()), (250, 0));
}

#[test]
fn a_changed_node_concerns_the_sets_for_which_it_means_something_else() {
    let cache = Cache::<DaemonSet>::default();
    let named = |name: &str, spec: &Value| {
        let mut set = of_spec(spec);
        set.meta.key = Key::new("ns", name);
        set
    };
    let sets = [
        named("all", &json!({})),
        named("bold", &json!({"tolerations": [{"operator": "Exists"}]})),
        named("other", &json!({"nodeSelector": {"name": "b"}})),
    ];
    cache.fill(sets, Revision(1));
    let concerned = |old: &str, new: &str| {
        let one = |text: &str| -> Option<Node> { nodes(text).pop() };
        let change = Change { key: Key::new("", "a"), old: one(old), new: one(new) };
        let mut keys = Vec::new();
        enqueue_concerned(&cache, &change, &mut |key: Key| keys.push(key.name.to_string()));
        keys.join(" ")
    };
    for (old, new, expected) in [
        ("", "a", "all bold"),
        ("a", "", "all bold"),
        ("a", "a", ""),
        ("a", "a: x:NoSchedule", "all"),
        ("a: x:NoSchedule", "a: x:NoExecute", "all"),
        ("a", "a: x:PreferNoSchedule", ""),
        ("a", "a: node.kubernetes.io/unreachable:NoExecute", ""),
        ("", "b", "all bold other"),
    ] {
        assert_eq!(concerned(old, new), expected, "from {old:?} to {new:?}");
    }
}

#[test]
fn the_status_counts_nodes_by_their_first_pod() {
    let on = "a, b, c, d, e: x:NoSchedule, f: x:NoExecute";
    let present =
        "a1: ok, a2: unready younger, b1: old unready, c1: numbered fresh, e1: ok, f1: ok, g1: ok, d1: going failed";
    let (nodes, pods) = (nodes(on), pods(present));
    let set = set(|set| {
        set.value.min_ready = 60;
        set.value.status.collisions = Some(2);
    });
    let status = count(&Snapshot::of(&set, HASH, (&nodes, &pods), NOW));
    let expected = DaemonSetState {
        observed: 3,
        desired: 4,
        current: 3,
        misscheduled: 2,
        ready: 2,
        updated: 2,
        available: 1,
        unavailable: 3,
        collisions: Some(2),
    };
    assert_eq!(status, expected);
}

#[test]
fn a_status_is_written_when_a_count_differs_or_the_generation_was_not_observed() {
    let old = DaemonSetState { observed: 3, desired: 2, ..DaemonSetState::default() };
    assert!(!differs(old, old));
    assert!(
        !differs(old, DaemonSetState { observed: 2, ..old })
            && !differs(old, DaemonSetState { collisions: Some(1), ..old })
    );
    assert!(differs(old, DaemonSetState { observed: 4, ..old }) && differs(old, DaemonSetState { ready: 1, ..old }));
}

#[test]
fn a_toleration_keeps_the_effect_that_it_names() {
    let set = set(|set| set.value.tolerations = [tolerates("x", Some(Effect::NoExecute))].into());
    assert_eq!(planned(&set, "a: x:NoExecute", ""), "+a");
    assert_eq!(planned(&set, "a: x:NoSchedule", ""), "");
}

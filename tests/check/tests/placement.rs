//! Tests every placement rule with logs that violate it, each beside one that nearly does.

use oarlock_check::placement::Rule::{
    Admission, Affinity, AntiAffinity, Nominated, Once, Ports, Resources, Spread, There, Victims,
};
use oarlock_check::placement::{Findings, LateMark, Line, Log, Rule, Rules, judge};
use serde_json::{Value, json};

/// A node of two cores in zone `z<number>`.
fn node(number: u64) -> Line {
    let name = format!("n{number}");
    let object = json!({
        "metadata": {"name": name, "labels": {"host": name, "zone": format!("z{}", number % 2)}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "3", "example.com/gpu": "1"}},
    });
    Line { revision: number, key: format!("nodes/{name}"), object: Some(object) }
}

/// Makes a pod's spec that requests one core, with further fields.
fn spec(more: &Value) -> Value {
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    });
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    spec
}

fn pod(revision: u64, name: &str, node: Option<&str>, more: &Value) -> Line {
    let mut spec = spec(more);
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    let labels = json!({"app": name.trim_end_matches(char::is_numeric)});
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "labels": labels});
    Line { revision, key: format!("pods/default/{name}"), object: Some(json!({"metadata": metadata, "spec": spec})) }
}

/// Makes a pod that is created, and bound at the next revision.
fn bound(revision: u64, name: &str, node: &str, more: &Value) -> [Line; 2] {
    [pod(revision, name, None, more), pod(revision + 1, name, Some(node), more)]
}

fn gone(revision: u64, name: &str) -> Line {
    Line { revision, key: format!("pods/default/{name}"), object: None }
}

fn found(lag: u64, lines: &[&[Line]]) -> Findings {
    let log = Log::of(lines.concat());
    judge(&log, &Rules { lag, late: 5 * lag, ..Rules::default() })
}

/// Asserts that these lines, after those of two nodes, break exactly these rules.
#[track_caller]
fn breaks(lines: &[&[Line]], rules: &[Rule]) {
    let nodes = [node(1), node(2)];
    let findings = found(10, &[&[&nodes[..]], lines].concat());
    let broken: Vec<Rule> = findings.broken.iter().map(|broken| broken.rule).collect();
    assert_eq!(broken, rules, "{}", findings.show(10));
}

fn apart(topology: &str, app: &str) -> Value {
    let term = json!({"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}});
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn near(topology: &str, app: &str) -> Value {
    let term = json!({"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}});
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn spread(app: &str) -> Value {
    let rule = json!({
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    });
    json!({"topologySpreadConstraints": [rule]})
}

#[test]
fn a_node_name_is_set_once() {
    let none = json!({});
    breaks(&[&bound(10, "a", "n1", &none)], &[]);
    breaks(&[&bound(10, "a", "n1", &none), &[pod(12, "a", Some("n2"), &none)]], &[Once]);
    breaks(&[&bound(10, "a", "n1", &none), &[pod(12, "a", None, &none)]], &[Once]);
    // The second pod has the same name and another uid.
    breaks(&[&bound(10, "a", "n1", &none), &[gone(12, "a")], &bound(13, "a", "n2", &none)], &[]);
}

#[test]
fn a_pod_goes_to_a_node_that_is_there_and_takes_it() {
    breaks(&[&bound(10, "a", "n9", &json!({}))], &[There]);
    let gone = Line { revision: 20, key: "nodes/n1".to_owned(), object: None };
    breaks(&[std::slice::from_ref(&gone), &bound(25, "a", "n1", &json!({}))], &[]);
    breaks(&[&[gone], &bound(40, "a", "n1", &json!({}))], &[There]);
    breaks(&[&bound(10, "a", "n1", &json!({"nodeSelector": {"host": "n1"}}))], &[]);
    breaks(&[&bound(10, "a", "n2", &json!({"nodeSelector": {"host": "n1"}}))], &[Admission]);
    let mut cordoned = node(1);
    cordoned.revision = 20;
    cordoned.object.as_mut().unwrap()["spec"] = json!({"unschedulable": true});
    // Within the lag the scheduler need not know the change.
    breaks(&[std::slice::from_ref(&cordoned), &bound(25, "a", "n1", &json!({}))], &[]);
    breaks(&[&[cordoned], &bound(40, "a", "n1", &json!({}))], &[Admission]);
}

#[test]
fn a_node_has_room_for_all_its_pods() {
    let none = json!({});
    let two = [bound(10, "a", "n1", &none), bound(12, "b", "n1", &none)].concat();
    breaks(&[&two], &[]);
    breaks(&[&two, &bound(14, "c", "n1", &none)], &[Resources]);
    breaks(&[&two, &bound(14, "c", "n2", &none)], &[]);
    breaks(&[&two, &[gone(14, "a")], &bound(15, "c", "n1", &none)], &[]);
    let small = json!({"containers": [{"resources": {"requests": {"cpu": "1m"}}}]});
    let three: Vec<Line> = (0..3).flat_map(|n| bound(10 + 2 * n, &format!("s{n}"), "n1", &small)).collect();
    breaks(&[&three], &[]);
    breaks(&[&three, &bound(20, "t", "n1", &small)], &[Resources]);
    let gpu = json!({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]});
    breaks(&[&bound(10, "a", "n1", &gpu)], &[]);
    breaks(&[&bound(10, "a", "n1", &gpu), &bound(12, "b", "n1", &gpu)], &[Resources]);
    // A pod that has ended uses no resources.
    let mut ended = pod(14, "a", Some("n1"), &none);
    ended.object.as_mut().unwrap()["status"] = json!({"phase": "Succeeded"});
    breaks(&[&two, &[ended], &bound(15, "c", "n1", &none)], &[]);
    // Init containers run one after the other, sidecars beside all containers.
    let init = |cpu: &str, policy: Value| {
        let init = json!({"restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
        json!({"initContainers": [init]})
    };
    breaks(&[&bound(10, "a", "n1", &init("2", Value::Null))], &[]);
    breaks(&[&bound(10, "a", "n1", &init("2", json!("Always")))], &[Resources]);
}

#[test]
fn pods_of_others_count_once_they_must_have_been_seen() {
    let none = json!({});
    let late = |revision| {
        [pod(20, "intruder", Some("n1"), &none), pod(20, "intruder2", Some("n1"), &none)]
            .into_iter()
            .chain(bound(revision, "a", "n1", &none))
            .collect::<Vec<_>>()
    };
    breaks(&[&late(25)], &[]);
    breaks(&[&late(40)], &[Resources]);
    let nodes = [node(1), node(2)];
    let findings = found(10, &[&nodes, &late(25)]);
    assert_eq!((findings.bindings, findings.others, findings.excused), (1, 2, 1));
    // Another scheduler's bindings are not judged.
    let foreign = json!({"schedulerName": "other"});
    let three: Vec<Line> = (0..3).flat_map(|n| bound(10 + 2 * n, &format!("x{n}"), "n1", &foreign)).collect();
    breaks(&[&three], &[]);
}

#[test]
fn host_ports_are_taken_once() {
    let port = |ip: Option<&str>, number: u64| json!({"containers": [{"ports": [{"hostPort": number, "hostIP": ip}]}]});
    let first = bound(10, "a", "n1", &port(None, 80));
    breaks(&[&first, &bound(12, "b", "n1", &port(None, 80))], &[Ports]);
    breaks(&[&first, &bound(12, "b", "n1", &port(Some("10.0.0.1"), 80))], &[Ports]);
    breaks(&[&first, &bound(12, "b", "n2", &port(None, 80))], &[]);
    breaks(&[&first, &bound(12, "b", "n1", &port(None, 81))], &[]);
    let own = bound(10, "a", "n1", &port(Some("10.0.0.1"), 80));
    breaks(&[&own, &bound(12, "b", "n1", &port(Some("10.0.0.2"), 80))], &[]);
}

#[test]
fn required_affinity_finds_somebody() {
    let none = json!({});
    breaks(&[&bound(10, "db1", "n1", &none), &bound(12, "web", "n1", &near("zone", "db"))], &[]);
    breaks(&[&bound(10, "db1", "n1", &none), &bound(12, "web", "n2", &near("zone", "db"))], &[Affinity]);
    breaks(&[&bound(12, "web", "n2", &near("zone", "db"))], &[Affinity]);
    // The first pod of its kind.
    breaks(&[&bound(12, "web", "n2", &near("zone", "web"))], &[]);
    breaks(
        &[&bound(10, "web1", "n1", &near("zone", "web")), &bound(12, "web2", "n2", &near("zone", "web"))],
        &[Affinity],
    );
    breaks(&[&[pod(11, "db9", None, &none)], &bound(12, "web", "n2", &near("zone", "db"))], &[]);
    // The pod that satisfied the affinity may have been deleted meanwhile.
    let left = [&bound(10, "db1", "n1", &none)[..], &[gone(20, "db1")]].concat();
    breaks(&[&left, &bound(25, "web", "n1", &near("zone", "db"))], &[]);
    breaks(&[&left, &bound(45, "web", "n1", &near("zone", "db"))], &[Affinity]);
}

#[test]
fn required_anti_affinity_holds_both_ways() {
    let none = json!({});
    let wants = apart("zone", "db");
    breaks(&[&bound(10, "db1", "n1", &none), &bound(12, "web", "n1", &wants)], &[AntiAffinity]);
    breaks(&[&bound(10, "db1", "n1", &none), &bound(12, "web", "n2", &wants)], &[]);
    breaks(&[&bound(10, "web", "n1", &wants), &bound(12, "db1", "n1", &none)], &[AntiAffinity]);
    breaks(&[&bound(10, "web", "n1", &wants), &[gone(12, "web")], &bound(13, "db1", "n1", &none)], &[]);
    // A domain is more than a node: n1 and n3 are in one zone.
    let third = [node(3)];
    breaks(&[&third, &bound(10, "db1", "n3", &none), &bound(20, "web", "n1", &wants)], &[AntiAffinity]);
    breaks(&[&third, &bound(10, "db1", "n3", &none), &bound(20, "web", "n1", &apart("host", "db"))], &[]);
    breaks(&[&third, &bound(10, "db1", "n3", &none), &bound(20, "web", "n1", &apart("no-such", "db"))], &[]);
}

#[test]
fn hard_spread_keeps_its_skew() {
    let even = spread("web");
    breaks(&[&bound(20, "web1", "n1", &even), &bound(22, "web2", "n2", &even)], &[]);
    breaks(&[&bound(20, "web1", "n1", &even), &bound(22, "web2", "n1", &even)], &[Spread]);
    // Pods that the constraint does not select do not count.
    breaks(&[&bound(20, "db1", "n1", &json!({})), &bound(22, "web2", "n1", &even)], &[]);
    // The pod in the other domain was deleted just before.
    let both = [bound(20, "web1", "n1", &even), bound(22, "web2", "n2", &even)].concat();
    breaks(&[&both, &[gone(24, "web2")], &bound(26, "web3", "n1", &even)], &[]);
    breaks(&[&both, &[gone(24, "web2")], &bound(46, "web3", "n1", &even)], &[Spread]);
    // The decision may have relied on one pod that waits for the other domain, but not on more pods than exist.
    let waits = |name| [pod(21, name, None, &even)];
    breaks(&[&bound(20, "web1", "n1", &even), &waits("web9"), &bound(22, "web2", "n1", &even)], &[]);
    breaks(&[&bound(20, "web1", "n1", &even), &waits("db9"), &bound(22, "web2", "n1", &even)], &[Spread]);
    // A node without the key is in no domain.
    let mut bare = node(1);
    bare.revision = 3;
    bare.object.as_mut().unwrap()["metadata"]["labels"] = json!({"host": "n1"});
    breaks(&[&[bare], &bound(20, "web1", "n1", &even)], &[Spread]);
    // A domain that the pod's node selector excludes does not count.
    let mut there = even.clone();
    there["nodeSelector"] = json!({"zone": "z1"});
    breaks(&[&bound(20, "web1", "n1", &there), &bound(22, "web2", "n1", &there)], &[]);
}

#[test]
fn rules_count_where_they_could_be_broken_and_nodes_tell_how_full_they_were() {
    let nodes = [node(1), node(2)];
    let findings = found(10, &[&nodes, &bound(10, "a", "n1", &json!({})), &bound(12, "b", "n1", &spread("b"))]);
    assert_eq!((findings.bindings, findings.broken.len()), (2, 0));
    let asked = |rule| findings.asked.get(&rule).copied().unwrap_or(0);
    assert_eq!((asked(Resources), asked(Spread), asked(Ports)), (2, 1, 0));
    assert_eq!(findings.fullest.get("n1"), Some(&100));
    assert_eq!(findings.fullest.get("n2"), None);
}

/// Makes a pod of a priority, nominated to a node.
fn nominated(revision: u64, name: &str, node: &str, priority: i64) -> Line {
    let mut line = pod(revision, name, None, &json!({"priority": priority}));
    line.object.as_mut().unwrap()["status"] = json!({"nominatedNodeName": node});
    line
}

/// Makes a pod on a node that is marked as preempted.
fn marked(revision: u64, name: &str, node: &str, priority: i64) -> Line {
    let mut line = pod(revision, name, Some(node), &json!({"priority": priority}));
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
    line.object.as_mut().unwrap()["status"] = json!({"conditions": [condition]});
    line
}

#[test]
fn who_has_to_leave_does_so_for_a_pod_of_higher_priority_that_is_nominated_there() {
    let low = bound(10, "low", "n1", &json!({"priority": 1}));
    let leaves = |line: Line, rules: &[Rule]| breaks(&[&low, &[line, marked(21, "low", "n1", 1)]], rules);
    leaves(nominated(20, "high", "n1", 2), &[]);
    leaves(nominated(20, "equal", "n1", 1), &[Victims]);
    leaves(nominated(20, "elsewhere", "n2", 2), &[Victims]);
    leaves(nominated(22, "later", "n1", 2), &[Victims]);
    // The nominated pod may have its node by then, or be deleted.
    let got = pod(20, "high", Some("n1"), &json!({"priority": 2}));
    breaks(&[&low, &[nominated(15, "high", "n1", 2), got, marked(21, "low", "n1", 1)]], &[]);
    breaks(&[&low, &[nominated(15, "high", "n1", 2), gone(20, "high"), marked(21, "low", "n1", 1)]], &[]);
    // A mark may be on its way for longer than the nomination exists, but not for ever, and not to a pod that came to the node later.
    let late = [nominated(15, "high", "n1", 2), gone(20, "high")];
    breaks(&[&low, &late, &[marked(70, "low", "n1", 1)]], &[]);
    breaks(&[&low, &late, &[marked(71, "low", "n1", 1)]], &[Victims]);
    let newcomer = bound(21, "newcomer", "n1", &json!({"priority": 1}));
    breaks(&[&late, &newcomer, &[marked(41, "newcomer", "n1", 1)]], &[Victims]);
    let marks = |revision| found(10, &[&[node(1)], &low, &late, &[marked(revision, "low", "n1", 1)]]).late;
    assert_eq!((marks(30), marks(31)), (vec![], vec![LateMark { revision: 31, ended: 20 }]));
    // Evictions by others are not judged.
    let mut evicted = marked(21, "low", "n1", 1);
    evicted.object.as_mut().unwrap()["status"]["conditions"][0]["reason"] = json!("EvictionByEvictionAPI");
    breaks(&[&low, &[evicted]], &[]);
}

#[test]
fn room_is_left_for_who_is_nominated() {
    let of = |priority: i64| json!({"priority": priority});
    let there = bound(10, "there", "n1", &of(9));
    // Of the two cores one is in use and one is for the nominee.
    let comes = |more: &[&[Line]], rules: &[Rule]| {
        let end = [nominated(100, "end", "n2", 0)];
        breaks(&[&[&there[..], &[nominated(15, "high", "n1", 5)]], more, &[&end[..]]].concat(), rules);
    };
    comes(&[&bound(40, "low", "n1", &of(1))], &[Nominated]);
    comes(&[&bound(40, "equal", "n1", &of(5))], &[Nominated]);
    comes(&[&bound(40, "higher", "n1", &of(6))], &[]);
    comes(&[&bound(40, "low", "n2", &of(1))], &[]);
    // Within the lag the scheduler need not know the nomination. It may also know a later state: the nominee has another node, lost its nomination,
    // or was deleted.
    comes(&[&bound(20, "low", "n1", &of(1))], &[]);
    comes(&[&bound(40, "low", "n1", &of(1)), &[pod(45, "high", Some("n2"), &of(5))]], &[]);
    comes(&[&bound(40, "low", "n1", &of(1)), &[pod(45, "high", None, &of(5))]], &[]);
    comes(&[&bound(40, "low", "n1", &of(1)), &[gone(45, "high")]], &[]);
    comes(&[&bound(40, "low", "n1", &of(1)), &[pod(60, "high", Some("n2"), &of(5))]], &[Nominated]);
    // The violation stays one if the nominee gets its node later, because a third pod leaves.
    let third = [gone(44, "there"), pod(45, "high", Some("n1"), &of(5))];
    comes(&[&bound(40, "low", "n1", &of(1)), &third], &[Nominated]);
    // With room for both pods the binding is correct.
    comes(&[&[gone(20, "there")], &bound(40, "low", "n1", &of(1))], &[]);
}

//! Rules about the pods of DaemonSets.

use oarlock_pods::daemon::{pinned_node, tolerated_taints};
use oarlock_schema::views::core_v1::Pod;
use serde_json::{Value, json};

use crate::common;

fn pinned(terms: &Value) -> Option<String> {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    let object = common::of_spec(&json!({"containers": [], "affinity": {"nodeAffinity": required}}));
    pinned_node(object.view::<Pod<'_>>().unwrap().spec()).map(str::to_owned)
}

#[test]
fn a_pod_is_pinned_by_the_name_that_its_affinity_requires() {
    let name = |operator: &str, values: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]});
    let label = json!({"matchExpressions": [{"key": "metadata.name", "operator": "In", "values": ["l"]}]});
    for (terms, expected) in [
        (json!([name("In", &["n"])]), Some("n")),
        (json!([label, name("In", &["n"])]), Some("n")),
        (json!([name("NotIn", &["n"])]), None),
        (json!([name("In", &["n", "m"])]), None),
        (json!([label]), None),
        (json!([]), None),
    ] {
        assert_eq!(pinned(&terms).as_deref(), expected, "{terms}");
    }
    let free = common::of_spec(&json!({"containers": []}));
    assert_eq!(pinned_node(free.view::<Pod<'_>>().unwrap().spec()), None);
}

#[test]
fn a_daemon_pod_tolerates_the_problems_of_nodes_and_with_the_nodes_network_a_missing_network() {
    let shown = |host_network: bool| -> Vec<String> {
        tolerated_taints(host_network)
            .map(|(key, effect)| format!("{}:{}", key.trim_start_matches("node.kubernetes.io/"), effect.as_str()))
            .collect()
    };
    let always = [
        "not-ready:NoExecute",
        "unreachable:NoExecute",
        "disk-pressure:NoSchedule",
        "memory-pressure:NoSchedule",
        "pid-pressure:NoSchedule",
        "unschedulable:NoSchedule",
    ];
    assert_eq!(shown(false), always);
    assert_eq!(shown(true), [always.as_slice(), &["network-unavailable:NoSchedule"]].concat());
}

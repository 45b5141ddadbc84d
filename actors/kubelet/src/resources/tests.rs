use oarlock_client::decode;
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};

use super::*;
use crate::downward::{self, find};

const NODE: i64 = 8 << 30;
const PAGES: [u64; 2] = [2 << 20, 1 << 30];

fn object(spec: &Value) -> Obj {
    decode(type_of_kind("", "v1", "Pod").unwrap(), json!({"spec": spec}).to_string().as_bytes()).unwrap()
}

fn of(spec: &Value, name: &str) -> LinuxResources {
    let object = object(spec);
    let pod = downward::pod(&object);
    linux_resources(pod, find(pod, name).unwrap(), NODE, &PAGES)
}

fn main_with(resources: &Value) -> Value {
    json!({"containers": [{"name": "main", "resources": resources}]})
}

#[test]
fn requests_become_shares_and_limits_quotas() {
    for (resources, shares, quota, memory) in [
        (json!({}), 2, 0, 0),
        (json!({"requests": {"cpu": "500m"}}), 512, 0, 0),
        (json!({"requests": {"cpu": "1m"}, "limits": {"cpu": "5m"}}), 2, 1000, 0),
        (json!({"limits": {"cpu": "2", "memory": "1Gi"}}), 2048, 200_000, 1 << 30),
        (json!({"requests": {"cpu": "1k"}}), 262_144, 0, 0),
        (json!({"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}), 2, 100_000, 0),
    ] {
        let got = of(&main_with(&resources), "main");
        assert_eq!((got.cpu_shares, got.cpu_quota, got.memory_limit), (shares, quota, memory), "{resources}");
        assert_eq!(got.cpu_period, 100_000);
    }
}

#[test]
fn limits_of_the_pod_hold_where_the_container_has_none() {
    let spec = json!({
        "resources": {"limits": {"cpu": "1", "memory": "2Gi", "hugepages-2Mi": "8Mi"}},
        "containers": [{"name": "main", "resources": {"limits": {"memory": "1Gi"}}}, {"name": "other"}],
    });
    assert_eq!((of(&spec, "main").memory_limit, of(&spec, "other").memory_limit), (1 << 30, 2 << 30));
    assert_eq!(of(&spec, "main").cpu_quota, 100_000);
    assert_eq!(of(&spec, "other").hugepages, [("2MB".to_owned(), 8 << 20), ("1GB".to_owned(), 0)]);
}

#[test]
fn the_kernel_kills_who_was_promised_least_first() {
    let guaranteed =
        main_with(&json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}));
    assert_eq!(of(&guaranteed, "main").oom_score_adj, -997);
    assert_eq!(of(&main_with(&json!({})), "main").oom_score_adj, 1000);
    for (memory, adjustment) in [("4Gi", 500), ("1Mi", 999), ("8Gi", 3), ("64Gi", 3), ("800Mi", 903)] {
        assert_eq!(
            of(&main_with(&json!({"requests": {"memory": memory}})), "main").oom_score_adj,
            adjustment,
            "{memory}"
        );
    }
    let mut critical = main_with(&json!({}));
    critical["priority"] = NODE_CRITICAL.into();
    assert_eq!(of(&critical, "main").oom_score_adj, -997);
}

#[test]
fn a_sidecar_is_killed_no_sooner_than_the_containers_it_serves() {
    let spec = json!({
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "containers": [
            {"name": "a", "resources": {"requests": {"memory": "4Gi"}}},
            {"name": "b", "resources": {"requests": {"memory": "2Gi"}}},
        ],
    });
    assert_eq!((of(&spec, "side").oom_score_adj, of(&spec, "b").oom_score_adj), (750, 750));
}

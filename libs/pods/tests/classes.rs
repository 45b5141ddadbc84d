//! The quality of service class of pods.

use oarlock_pods::QosClass::{self, BestEffort, Burstable, Guaranteed};
use oarlock_pods::qos;
use oarlock_schema::views::core_v1::Pod;
use serde_json::{Value, json};

use crate::common;

fn computed(spec: &Value) -> QosClass {
    qos::computed(common::of_spec(spec).view::<Pod<'_>>().unwrap().spec())
}

/// Each row is an answer of upstream.
#[test]
fn the_class_follows_what_the_pod_says_as_a_whole_before_its_containers() {
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let same = json!({"limits": both, "requests": {"cpu": "1000m", "memory": "1024Mi"}});
    let little = json!({"requests": {"cpu": "10m"}});
    let rows = [
        (json!({"resources": {"limits": both, "requests": both}, "containers": [{"resources": little}]}), Guaranteed),
        (json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, "containers": [{}]}), Burstable),
        (json!({"resources": {"requests": {"cpu": "1"}}, "containers": [{}]}), Burstable),
        (json!({"resources": {}, "containers": [{"resources": little}]}), BestEffort),
        (json!({"containers": [{"resources": same}]}), Guaranteed),
        (json!({"containers": [{"resources": {"requests": {"cpu": "0.0", "memory": "0Mi"}}}]}), BestEffort),
        (json!({"containers": [{"resources": {"limits": both, "requests": {"cpu": "1"}}}]}), Burstable),
        (json!({"containers": [{"resources": same}], "initContainers": [{}]}), Burstable),
        (json!({"containers": [{"resources": {"limits": {"x/gpu": "1"}}}]}), BestEffort),
    ];
    for (spec, wanted) in rows {
        assert_eq!(computed(&spec), wanted, "{spec}");
    }
}

#[test]
fn a_pod_is_guaranteed_if_all_requests_together_are_all_limits_together() {
    let with = |requests: Value| json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": requests}});
    let (little, much) = (json!({"cpu": "500m", "memory": "512Mi"}), json!({"cpu": "1.5", "memory": "1536Mi"}));
    assert_eq!(computed(&json!({"containers": [with(little.clone())], "initContainers": [with(much)]})), Guaranteed);
    assert_eq!(computed(&json!({"containers": [with(little.clone()), with(little)]})), Burstable);
    assert_eq!(computed(&json!({"containers": []})), BestEffort);
}

#[test]
fn the_class_that_a_pod_was_given_stays() {
    let of = |class: &str| {
        let pod = common::pod(&json!({"spec": {"containers": [{}]}, "status": {"qosClass": class}}));
        qos::of(pod.view::<Pod<'_>>().unwrap())
    };
    for class in [Guaranteed, Burstable, BestEffort] {
        assert_eq!(of(class.as_str()), class);
    }
    assert_eq!(of(""), BestEffort, "its resources decide where it was given none");
}

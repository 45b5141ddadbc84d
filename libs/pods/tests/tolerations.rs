//! Tolerations.

use oarlock_pods::toleration::tolerated;
use oarlock_pods::{Effect, Taint, Toleration};
use oarlock_schema::Str;
use oarlock_schema::views::core_v1::Pod;
use serde_json::{Value, json};

use crate::common;

fn read(tolerations: &Value) -> Vec<Toleration<Str>> {
    let object = common::of_spec(&json!({"containers": [], "tolerations": tolerations}));
    let spec = object.view::<Pod<'_>>().unwrap().spec();
    spec.tolerations().iter().filter_map(|toleration| Toleration::read(toleration, Str::from)).collect()
}

#[test]
fn a_toleration_is_compared_in_key_value_and_effect() {
    let taint = Taint { key: Str::from("gpu"), value: Str::from("a100"), effect: Effect::NoExecute };
    let rows = [
        (json!({"key": "gpu", "value": "a100"}), true),
        (json!({"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoExecute"}), true),
        (json!({"key": "gpu", "operator": "Equal", "value": "h100"}), false),
        (json!({"key": "gpu"}), false),
        (json!({"key": "gpu", "operator": "Exists"}), true),
        (json!({"key": "disk", "operator": "Exists"}), false),
        (json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}), false),
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Exists", "effect": "PreferNoSchedule"}), false),
        // Validation refuses these; upstream compares them all the same.
        (json!({"value": "a100"}), true),
        (json!({"value": "h100"}), false),
        (json!({"key": "gpu", "operator": "Gt", "value": "a100"}), false),
        (json!({"key": "gpu", "operator": "Lt", "value": "a100"}), false),
        (json!({"key": "gpu", "operator": "Exists", "effect": "Never"}), false),
    ];
    for (toleration, wanted) in rows {
        assert_eq!(tolerated(&read(&json!([toleration])), &taint), wanted, "{toleration}");
    }
    assert!(!tolerated(&[], &taint));
    let second = json!([{"key": "disk", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}]);
    assert!(tolerated(&read(&second), &taint), "one of several is enough");
}

#[test]
fn a_taint_without_an_effect_is_none() {
    let node = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b"}]}});
    let node = common::object("", "nodes", &node);
    let node = node.view::<oarlock_schema::views::core_v1::Node<'_>>().unwrap();
    let taints: Vec<_> = node.spec().taints().iter().filter_map(|taint| Taint::read(taint, Str::from)).collect();
    assert_eq!(taints, [Taint { key: Str::from("a"), value: Str::from(""), effect: Effect::NoSchedule }]);
}

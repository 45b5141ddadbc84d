//! Node selectors and required node affinity.

use oarlock_pods::node_affinity::RequiredNodes;
use oarlock_schema::views::core_v1::Pod;
use serde_json::{Value, json};

use crate::common;

/// Whether a pod with this specification may run on the node `n` with the labels `zone=a`, `cores=16`.
fn allowed(spec: &Value) -> bool {
    let object = common::of_spec(spec);
    let required = RequiredNodes::read(object.view::<Pod<'_>>().unwrap().spec());
    required.matches("n", |key| match key {
        "zone" => Some("a"),
        "cores" => Some("16"),
        _ => None,
    })
}

fn with_terms(terms: &Value) -> Value {
    json!({"containers": [], "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn requirements_on_labels_and_on_the_name() {
    let labels = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let name = |operator: &str, values: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]});
    let other =
        |operator: &str| json!({"matchFields": [{"key": "metadata.uid", "operator": operator, "values": ["u"]}]});
    let rows = [
        (labels("zone", "In", &["b", "a"]), true),
        (labels("zone", "In", &["b"]), false),
        (labels("rack", "In", &["a"]), false),
        (labels("zone", "NotIn", &["b"]), true),
        (labels("zone", "NotIn", &["a"]), false),
        (labels("rack", "NotIn", &["a"]), true),
        (labels("zone", "Exists", &[]), true),
        (labels("rack", "Exists", &[]), false),
        (labels("zone", "DoesNotExist", &[]), false),
        (labels("rack", "DoesNotExist", &[]), true),
        (labels("cores", "Gt", &["8"]), true),
        (labels("cores", "Gt", &["16"]), false),
        (labels("cores", "Lt", &["17"]), true),
        (labels("cores", "Lt", &["-1"]), false),
        (labels("zone", "Gt", &["8"]), false),
        (labels("rack", "Lt", &["8"]), false),
        (name("In", &["n"]), true),
        (name("In", &["m"]), false),
        (name("NotIn", &["m"]), true),
        (name("NotIn", &["n"]), false),
        // A requirement that cannot be parsed matches no node.
        (labels("zone", "In", &[]), false),
        (labels("rack", "NotIn", &[]), false),
        (labels("zone", "Exists", &["a"]), false),
        (labels("rack", "DoesNotExist", &["a"]), false),
        (labels("cores", "Gt", &["8", "9"]), false),
        (labels("cores", "Gt", &["eight"]), false),
        (labels("zone", "Near", &["a"]), false),
        (name("In", &["n", "m"]), false),
        (name("NotIn", &["m", "o"]), false),
        (name("Exists", &[]), false),
        // Nodes have no other field.
        (other("In"), false),
        (other("NotIn"), true),
        (json!({}), false),
    ];
    for (term, wanted) in rows {
        assert_eq!(allowed(&with_terms(&json!([term]))), wanted, "{term}");
    }
}

#[test]
fn one_term_must_match_in_all_its_parts_and_the_selector_too() {
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let other = json!({"key": "zone", "operator": "In", "values": ["b"]});
    let me = json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
    let one = |labels: &[&Value]| json!({"matchExpressions": labels});
    assert!(allowed(&with_terms(&json!([one(&[&other]), one(&[&zone])]))));
    assert!(!allowed(&with_terms(&json!([one(&[&other, &zone])]))));
    assert!(allowed(&with_terms(&json!([{"matchExpressions": [zone], "matchFields": [me]}]))));
    assert!(!allowed(&with_terms(&json!([{"matchExpressions": [other], "matchFields": [me]}]))));
    assert!(!allowed(&with_terms(&json!([]))), "no term matches");
    assert!(allowed(&json!({"containers": []})), "nothing is required");
    let mut both = with_terms(&json!([one(&[&zone])]));
    both["nodeSelector"] = json!({"cores": "16"});
    assert!(allowed(&both));
    both["nodeSelector"] = json!({"cores": "8"});
    assert!(!allowed(&both));
}

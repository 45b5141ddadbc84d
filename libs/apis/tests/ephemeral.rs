//! Ephemeral containers through their subresource, against recorded answers of a v1.35.0 server (`data/ephemeral.jsonl`: the containers of a merge
//! patch, and reason, field and first line of the message of each cause).

use crate::common;
use oarlock_meta::ErrorList;
use serde_json::{Value, json};

fn pod(containers: &Value) -> (&'static oarlock_schema::Resource, oarlock_schema::Obj) {
    let (resource, mut obj) = common::obj(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q", "namespace": "n"},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{"name": "ini", "image": "i"}],
            "containers": [{"name": "c", "image": "i"}],
            "ephemeralContainers": containers,
        },
    }));
    oarlock_apis::default(&mut obj);
    (resource, obj)
}

fn causes(errors: &ErrorList) -> Value {
    let line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    errors.iter().map(|e| json!([e.kind.as_str(), e.field, line(e.body())])).collect()
}

#[test]
fn ephemeral_containers_are_validated_as_upstream_does() {
    let (resource, old) = pod(&json!([]));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in include_str!("data/ephemeral.jsonl").lines() {
        count += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let (_, new) = pod(&case["ephemeralContainers"]);
        let ours = causes(&oarlock_apis::validate_change(resource, "ephemeralcontainers", &new, &old));
        if ours != case["causes"] {
            wrong.push(format!("{}\n  ours   {ours}\n  theirs {}", case["ephemeralContainers"], case["causes"]));
        }
    }
    assert!(count >= 40, "{count} cases");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_pod_itself_is_no_way_to_its_ephemeral_containers() {
    let one = |image: &str| json!([{"name": "d", "image": image, "securityContext": {"privileged": true}}]);
    let (resource, without) = pod(&json!([]));
    let ((_, with), (_, other)) = (pod(&one("x")), pod(&one("y")));
    for (new, old) in [(&with, &without), (&without, &with), (&other, &with)] {
        let errors = causes(&oarlock_apis::validate_change(resource, "", new, old));
        assert_eq!((&errors[0][0], &errors[0][1]), (&json!("FieldValueForbidden"), &json!("spec")), "{errors}");
        let text = errors[0][2].as_str().unwrap();
        assert!(text.starts_with("Forbidden: pod updates may not change fields other than"), "{text}");
    }
    assert_eq!(causes(&oarlock_apis::validate_change(resource, "", &with, &with)), json!([]));
}

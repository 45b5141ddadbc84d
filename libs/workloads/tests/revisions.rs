//! The bytes of a revision's data, and what they restore.

use oarlock_codec::{Mode, json};
use oarlock_schema::{Obj, Struct, Value, resource};
use oarlock_workloads::revision::{bytes, data, name, of, restored};
use oarlock_workloads::{Fingerprint, safe_text};
use serde_json::{Value as Json, json};

/// Makes a StatefulSet with this pod template, as the API server stores the set.
fn set(template: &Json) -> Obj {
    let ty = resource("apps", "v1", "statefulsets").unwrap().ty;
    let set = json!({
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let mut set = json::decode(set.to_string().as_bytes(), ty, Mode::Strict).unwrap().value;
    oarlock_apis::default(&mut set);
    set
}

fn template(set: &Obj) -> &Struct {
    set.at(&["spec", "template"]).and_then(Value::as_struct).unwrap()
}

fn text(set: &Obj) -> String {
    String::from_utf8(bytes(&data(template(set)))).unwrap()
}

fn of_spec(spec: Json) -> Obj {
    set(&json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}))
}

#[test]
fn the_data_is_a_patch_that_replaces_the_template_with_sorted_keys() {
    let set = of_spec(json!({"containers": [{"name": "main", "image": "a:1"}]}));
    let expected = concat!(
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"#,
        r#""spec":{"containers":[{"image":"a:1","imagePullPolicy":"IfNotPresent","name":"main","resources":{},"#,
        r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"#,
        r#""dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"#,
        r#""terminationGracePeriodSeconds":30}}}}"#,
    );
    assert_eq!(text(&set), expected);
}

#[test]
fn texts_are_escaped_and_numbers_rounded_as_go_does() {
    let args = json!(["a && b > c < d", "line\u{2028}end", "tab\t\"quoted\" \u{7f} é"]);
    let container = json!({"name": "main", "image": "a:1", "args": args});
    let text =
        text(&of_spec(json!({"containers": [container], "terminationGracePeriodSeconds": 9_007_199_254_740_993_i64,
        "activeDeadlineSeconds": i64::MAX})));
    let escaped = r#"["a \u0026\u0026 b \u003e c \u003c d","line\u2028end","tab\t\"quoted\" "#;
    assert!(text.contains(escaped) && text.contains("\u{7f} é\"]"), "{text}");
    assert!(text.contains(r#""terminationGracePeriodSeconds":9007199254740992"#), "{text}");
    assert!(text.contains(r#""activeDeadlineSeconds":9223372036854776000,"#), "{text}");
}

#[test]
fn a_revision_gives_a_set_its_template_and_leaves_the_rest() {
    let first = of_spec(json!({"containers": [{"name": "main", "image": "a:1"}, {"name": "side", "image": "b:1"}]}));
    let mut second = of_spec(json!({"containers": [{"name": "main", "image": "a:2"}], "hostNetwork": true}));
    second.set_at(&["spec", "replicas"], 7);
    let restored = restored(&second, &data(template(&first))).unwrap();
    assert_eq!(template(&restored), template(&first));
    assert_eq!(restored.at(&["spec", "replicas"]).and_then(Value::as_int), Some(7));
}

#[test]
fn a_revision_of_an_earlier_release_restores_the_same_template() {
    let set = of_spec(json!({"containers": [{"name": "main", "image": "a:1"}]}));
    let mut old: Json = serde_json::from_slice(&bytes(&data(template(&set)))).unwrap();
    old["spec"]["template"]["metadata"]["creationTimestamp"] = Json::Null;
    old["spec"]["template"]["spec"].as_object_mut().unwrap().remove("terminationGracePeriodSeconds");
    let old = json::decode_value(old.to_string().as_bytes(), Mode::Strict).unwrap().value;
    assert_ne!(Fingerprint::of(&old), Fingerprint::of_template(template(&set)));
    let mut restored = restored(&set, &old).unwrap();
    oarlock_apis::default(&mut restored);
    assert_eq!(Fingerprint::of_template(template(&restored)), Fingerprint::of_template(template(&set)));
}

#[test]
fn a_revision_has_the_labels_of_the_template_the_annotations_of_the_workload_and_the_data() {
    let mut set = of_spec(json!({"containers": [{"name": "main", "image": "a:1"}]}));
    set.set_at(&["metadata", "annotations", "who"], "me");
    let ty = resource("apps", "v1", "controllerrevisions").unwrap().ty;
    let made = of(ty, &set, ("hash", "abc"), 4, data(template(&set)));
    let mut encoded = Vec::new();
    json::encode_into(&made, &mut encoded);
    let json: Json = serde_json::from_slice(&encoded).unwrap();
    assert_eq!(json["metadata"]["labels"], json!({"app": "web", "hash": "abc"}));
    assert_eq!(
        (&json["metadata"]["namespace"], &json["metadata"]["annotations"]),
        (&json!("ns"), &json!({"who": "me"}))
    );
    assert_eq!((&json["revision"], &json["data"]["spec"]["template"]["$patch"]), (&json!(4), &json!("replace")));
    assert!(json["metadata"]["name"].is_null() && json["metadata"]["ownerReferences"].is_null());
}

#[test]
fn data_that_is_no_patch_restores_nothing() {
    let set = of_spec(json!({"containers": [{"name": "main", "image": "a:1"}]}));
    assert!(restored(&set, &Value::from("text")).is_err());
    let wrong = json::decode_value(br#"{"spec":{"template":{"spec":{"containers":"none"}}}}"#, Mode::Strict).unwrap();
    assert!(restored(&set, &wrong.value).is_err());
}

#[test]
fn names_are_short_enough_and_spell_no_words() {
    assert_eq!(safe_text::of_number(1_234_567_890), "56789bcdf4");
    assert_eq!(safe_text::of_number(0), "4");
    assert_eq!(name("web", "abc"), "web-abc");
    let long = "w".repeat(253);
    assert_eq!(name(&long, "7c9d8f6b5").len(), 223 + 1 + 9);
}

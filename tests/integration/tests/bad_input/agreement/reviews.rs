//! Access reviews about selections that cannot be read, and definitions whose stored version the server itself notes: upstream was asked the same.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use serde_json::{Value, json};

use super::{healthy, invalid};

#[test]
fn selectors_of_access_reviews_are_looked_at() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let at = "spec.resourceAttributes";
    let reviews = [
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview", json!({})),
        ("subjectaccessreviews", "SubjectAccessReview", json!({"user": "u"})),
        ("namespaces/default/localsubjectaccessreviews", "LocalSubjectAccessReview", json!({"user": "u"})),
    ];
    for (path, kind, spec) in &reviews {
        let ask = |selectors: &[(&str, Value)]| {
            let mut spec = spec.clone();
            spec["resourceAttributes"] = json!({"verb": "list", "resource": "pods", "namespace": "default"});
            for (field, selector) in selectors {
                spec["resourceAttributes"][field] = selector.clone();
            }
            let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
            http.json("POST", &format!("/apis/authorization.k8s.io/v1/{path}"), &body)
        };
        let both = json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]});
        for field in ["fieldSelector", "labelSelector"] {
            let why = "Invalid value: \"a=b\": may not specified at the same time as requirements";
            invalid(&ask(&[(field, both.clone())]), &[&format!("{at}.{field}.rawSelector: {why}")]);
            let why =
                format!("Required value: when {at}.{field} is specified, requirements or rawSelector is required");
            invalid(&ask(&[(field, json!({}))]), &[&format!("{at}.{field}.requirements: {why}")]);
        }
        let unread = ask(&[
            ("labelSelector", json!({"rawSelector": "a in (b"})),
            ("fieldSelector", json!({"rawSelector": "a"})),
        ]);
        assert_eq!(unread.code, 201, "{unread}");
        assert_eq!(
            unread.json()["status"]["evaluationError"],
            format!("{at}.fieldSelector ignored due to parse error; {at}.labelSelector ignored due to parse error")
        );
        let partly = json!({"requirements": [{"key": "a", "operator": "Later", "values": ["b"]}, {"key": "c", "operator": "In", "values": ["d"]}]});
        let partly = ask(&[("labelSelector", partly)]);
        assert_eq!(
            partly.json()["status"]["evaluationError"],
            format!("{at}.labelSelector partially ignored due to parse error")
        );
        let read = ask(&[("labelSelector", json!({"rawSelector": "a in (b)"}))]);
        assert_eq!((read.code, &read.json()["status"]["evaluationError"]), (201, &Value::Null), "{read}");
    }
    healthy(&http);
}

#[test]
fn a_definition_says_in_which_versions_objects_are_stored() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let names = json!({"plural": "things", "kind": "Thing"});
    let spec =
        |versions: Value| json!({"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions});
    let url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let body = json!({"metadata": {"name": "things.example.org"}, "spec": spec(json!([version("v1", true), version("v2", false)]))});
    let made = http.json("POST", url, &body);
    assert_eq!(made.code, 201, "{made}");
    assert_eq!(made.json()["status"]["storedVersions"], json!(["v1"]));
    let change = json!({"spec": {"versions": [version("v1", false), version("v2", true)]}});
    let changed = super::patch(&http, super::MERGE, &format!("{url}/things.example.org"), &change);
    assert_eq!(changed.code, 200, "{changed}");
    assert_eq!(changed.json()["status"]["storedVersions"], json!(["v1", "v2"]));
    healthy(&http);
}

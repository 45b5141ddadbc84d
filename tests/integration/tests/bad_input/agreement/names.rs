//! Bodies that name another object than the URL does: upstream was asked the same.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Http, Who};
use serde_json::{Value, json};

use super::{APPLY, MERGE, account, healthy, invalid, patch, refused};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const UNNAMED: &str = "(a based on URL) was undeterminable: name must be provided";
const ELSEWHERE: &str = "the namespace of the provided object does not match the namespace sent on the request";

#[test]
fn apply_makes_no_other_object_than_the_url_names() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let apply = |metadata: Value| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        patch(&http, APPLY, &format!("{MAPS}/a?fieldManager=x"), &body)
    };
    let other = "the name of the object (b) does not match the name on the URL (a)";
    let uid = "uid mismatch: the provided object specified uid u, and no existing object was found";
    refused(&apply(json!({"name": "b"})), 400, "BadRequest", other);
    refused(&apply(json!({})), 400, "BadRequest", UNNAMED);
    refused(&apply(json!({"generateName": "a-"})), 400, "BadRequest", UNNAMED);
    refused(&apply(json!({"name": "a", "uid": "u"})), 409, "Conflict", uid);
    refused(&apply(json!({"name": "b", "namespace": "kube-system"})), 400, "BadRequest", ELSEWHERE);
    let maps = http.get(MAPS).json();
    let names: Vec<&str> =
        maps["items"].as_array().unwrap().iter().filter_map(|m| m["metadata"]["name"].as_str()).collect();
    assert!(!names.contains(&"a") && !names.contains(&"b"), "{names:?}");

    let made = apply(json!({"name": "a", "resourceVersion": "5"}));
    assert_eq!(made.code, 201, "a revision of nothing is compared with nothing: {made}");
    assert_eq!(apply(json!({})).code, 200, "the object has its name");
    refused(&apply(json!({"name": "b"})), 400, "BadRequest", other);
    refused(&apply(json!({"name": ""})), 400, "BadRequest", UNNAMED);
    invalid(
        &apply(json!({"name": "a", "uid": "u"})),
        &[
            "metadata.uid: Invalid value: \"u\": field is immutable",
            "metadata.uid: Invalid value: \"u\": field is immutable",
        ],
    );
    let merge = |metadata: Value| patch(&http, MERGE, &format!("{MAPS}/a"), &json!({"metadata": metadata}));
    refused(&merge(json!({"name": "b"})), 400, "BadRequest", other);
    refused(&merge(json!({"name": null})), 400, "BadRequest", UNNAMED);
    healthy(&http);
}

fn scale(replicas: i64, metadata: Value) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}})
}

/// A Deployment of one replica that the manager `maker` posted.
fn deployment(http: &Http) {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let made = http.json(
        "POST",
        &format!("{DEPLOYMENTS}?fieldManager=maker"),
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}),
    );
    assert_eq!(made.code, 201, "{made}");
}

/// The owners of the field `replicas` of the Deployment, as `manager operation version subresource`.
fn owners(http: &Http) -> Vec<String> {
    let deployment = http.get(&format!("{DEPLOYMENTS}/a")).json();
    let entries = deployment["metadata"]["managedFields"].as_array().unwrap();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    let own = entries.iter().filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    own.map(|entry| {
        let [manager, operation, version, subresource] =
            ["manager", "operation", "apiVersion", "subresource"].map(|field| text(entry, field));
        format!("{manager} {operation} {version} {subresource}")
    })
    .collect()
}

#[test]
fn a_scale_is_read_changed_and_written_as_an_object_of_its_own() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    deployment(&http);
    let url = format!("{DEPLOYMENTS}/a/scale");
    let put = |body: Value| http.json("PUT", &format!("{url}?fieldManager=putter"), &body);
    let apply = |body: Value, query: &str| patch(&http, APPLY, &format!("{url}?{query}"), &body);
    let named = || json!({"name": "a"});
    let other = "the name of the object (b) does not match the name on the URL (a)";
    refused(&put(scale(3, json!({"name": "b"}))), 400, "BadRequest", other);
    refused(&put(scale(3, json!({}))), 400, "BadRequest", UNNAMED);
    refused(&put(scale(3, json!({"name": "a", "namespace": "kube-system"}))), 400, "BadRequest", ELSEWHERE);
    let precondition = "Precondition failed: UID in precondition: u, UID in object meta: ";
    refused(&put(scale(3, json!({"name": "a", "uid": "u"}))), 409, "Conflict", precondition);
    refused(&put(scale(3, json!({"name": "a", "resourceVersion": "1"}))), 409, "Conflict", "has been modified");
    invalid(&put(scale(-1, named())), &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]);
    assert_eq!(http.get(&url).json()["spec"]["replicas"], 1, "nothing of it was written");

    let conflict = "Apply failed with 1 conflict: conflict with \"maker\" using autoscaling/v1: .spec.replicas";
    refused(&apply(scale(4, named()), "fieldManager=x"), 409, "Conflict", conflict);
    refused(
        &apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named()}), "fieldManager=x"),
        400,
        "BadRequest",
        "invalid object type: apps/v1, Kind=Deployment",
    );
    let answer = put(scale(3, named()));
    assert_eq!((answer.code, &answer.json()["spec"]["replicas"]), (200, &json!(3)), "{answer}");
    assert_eq!(owners(&http), ["putter Update apps/v1 scale"]);
    let conflict = "conflict with \"putter\" with subresource \"scale\" using autoscaling/v1: .spec.replicas";
    refused(&apply(scale(4, named()), "fieldManager=x"), 409, "Conflict", conflict);
    assert_eq!(apply(scale(3, named()), "fieldManager=x").code, 200, "the same wish is no conflict");
    assert_eq!(owners(&http), ["x Apply apps/v1 scale", "putter Update apps/v1 scale"]);
    assert_eq!(apply(scale(5, named()), "fieldManager=x&force=true").code, 200);
    assert_eq!(owners(&http), ["x Apply apps/v1 scale"]);
    refused(&apply(scale(5, json!({"name": "b"})), "fieldManager=x"), 400, "BadRequest", other);
    let own = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named(), "spec": {"replicas": 7}});
    let conflict = "conflict with \"x\" with subresource \"scale\": .spec.replicas";
    refused(&patch(&http, APPLY, &format!("{DEPLOYMENTS}/a?fieldManager=x"), &own), 409, "Conflict", conflict);

    let merge = |body: Value| patch(&http, MERGE, &format!("{url}?fieldManager=y"), &body);
    let precondition = "Operation cannot be fulfilled on deployments/scale.apps \"a\": Precondition failed";
    refused(&merge(json!({"metadata": {"uid": "u"}})), 409, "Conflict", precondition);
    refused(&merge(json!({"metadata": {"name": "b"}})), 400, "BadRequest", other);
    assert_eq!(merge(json!({"spec": {"replicas": 8}})).code, 200);
    assert_eq!(owners(&http), ["y Update apps/v1 scale"]);
    let deployment = http.get(&format!("{DEPLOYMENTS}/a")).json();
    assert_eq!((&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]), (&json!(8), &json!(4)));
    healthy(&http);
}

#[test]
fn what_is_created_below_an_object_is_of_its_namespace() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    account(&http);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = http.json("POST", pods, &pod);
    assert_eq!(made.code, 201, "{made}");
    let meta = json!({"name": "a", "namespace": "kube-system"});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta});
    refused(&http.json("POST", &format!("{pods}/a/eviction"), &eviction), 400, "BadRequest", ELSEWHERE);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"name": "n"}});
    refused(&http.json("POST", &format!("{pods}/a/binding"), &binding), 400, "BadRequest", ELSEWHERE);
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"namespace": "kube-system"}, "spec": {}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default/token";
    refused(&http.json("POST", accounts, &token), 400, "BadRequest", ELSEWHERE);
    assert_eq!(http.get(&format!("{pods}/a")).code, 200, "it is still there");
    healthy(&http);
}

//! Evictions that would get around a budget, or spend it for nothing.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Http, Who};
use serde_json::{Value, json};

use super::healthy;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const MERGE: (&str, &str) = ("Content-Type", "application/merge-patch+json");

fn patch(http: &Http, path: &str, body: &Value) {
    let answer = http.send("PATCH", path, &[MERGE], body.to_string().as_bytes());
    assert_eq!(answer.code, 200, "{answer}");
}

/// A server with a pod that is ready, and a budget of one disruption for it.
fn cluster() -> (Cluster, Http) {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let account = json!({"metadata": {"name": "default"}});
    assert!([201, 409].contains(&http.json("POST", "/api/v1/namespaces/default/serviceaccounts", &account).code));
    let pod = json!({
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(http.json("POST", PODS, &pod).code, 201);
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    patch(&http, &format!("{PODS}/p/status"), &ready);
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    assert_eq!(http.json("POST", BUDGETS, &budget).code, 201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    patch(&http, &format!("{BUDGETS}/b/status"), &status);
    (cluster, http)
}

fn eviction(options: Value) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options})
}

#[test]
fn a_dry_eviction_spends_nothing_however_it_is_asked_for() {
    let (_cluster, http) = cluster();
    for (query, options) in [("?dryRun=All", json!({})), ("", json!({"dryRun": ["All"]}))] {
        let answer = http.json("POST", &format!("{PODS}/p/eviction{query}"), &eviction(options));
        assert_eq!(answer.code, 201, "{query}: {answer}");
        let budget = http.get(&format!("{BUDGETS}/b")).json();
        assert_eq!(budget["status"]["disruptionsAllowed"], 1, "{query}: {budget}");
        assert_eq!(budget["status"]["disruptedPods"], Value::Null, "{query}: {budget}");
    }
    assert_eq!(http.get(&format!("{PODS}/p")).json()["metadata"]["deletionTimestamp"], Value::Null);
    healthy(&http);
}

#[test]
fn a_budget_does_not_gather_evictions_without_end() {
    let (_cluster, http) = cluster();
    let mut gone: Value = (0..2_001).map(|n| (format!("gone-{n}"), json!("2026-01-01T00:00:00Z"))).collect();
    patch(&http, &format!("{BUDGETS}/b/status"), &json!({"status": {"disruptedPods": gone}}));
    let answer = http.json("POST", &format!("{PODS}/p/eviction"), &eviction(json!({})));
    assert_eq!(answer.code, 403, "{answer}");
    assert_eq!(
        answer.json()["message"],
        "poddisruptionbudget.policy \"b\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    );
    assert_eq!(http.get(&format!("{PODS}/p")).json()["metadata"]["deletionTimestamp"], Value::Null);
    gone["gone-0"] = Value::Null;
    patch(&http, &format!("{BUDGETS}/b/status"), &json!({"status": {"disruptedPods": gone}}));
    assert_eq!(http.json("POST", &format!("{PODS}/p/eviction"), &eviction(json!({}))).code, 201);
    healthy(&http);
}

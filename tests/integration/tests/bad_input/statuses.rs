//! Statuses that contradict themselves or the object are refused, because clients rely on statuses, whichever client writes them.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Answer, Http, Who};
use serde_json::{Value, json};

use super::{healthy, refused};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: (&str, &str) = ("Content-Type", "application/merge-patch+json");

fn made(http: &Http, path: &str, body: &Value) {
    let answer = http.json("POST", path, body);
    assert_eq!(answer.code, 201, "{answer}");
}

fn patched(http: &Http, path: &str, status: &Value) -> Answer {
    let body = json!({"status": status}).to_string();
    http.send("PATCH", &format!("{path}/status"), &[MERGE], body.as_bytes())
}

fn pod(http: &Http, name: &str) {
    // No controller runs that would make the ServiceAccount of pods.
    let account =
        http.json("POST", "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}));
    assert!(matches!(account.code, 201 | 409), "{account}");
    let spec = json!({"restartPolicy": "Never", "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]});
    made(http, PODS, &json!({"metadata": {"name": name}, "spec": spec}));
}

/// Each row is a status that upstream refuses, with the field that its error names.
#[test]
fn a_pod_says_nothing_that_cannot_be() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    pod(&http, "p");
    let path = format!("{PODS}/p");
    for (status, field) in [
        (json!({"podIP": "x"}), "status.podIPs[0]"),
        (json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}), "status.podIPs"),
        (json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}), "status.hostIPs[0].ip"),
        (json!({"qosClass": "Guaranteed"}), "status.qosClass"),
        (json!({"nominatedNodeName": "A_B"}), "status.nominatedNodeName"),
        (json!({"conditions": [{"type": "", "status": "True"}]}), "status.conditions[0].Type"),
        (json!({"observedGeneration": -1}), "status.observedGeneration"),
        (json!({"resourceClaimStatuses": [{"name": "none"}]}), "status.resourceClaimStatuses[0].name"),
    ] {
        let answer = patched(&http, &path, &status);
        refused(&answer, 422, "Invalid", field);
        assert_eq!(answer.json()["details"]["causes"][0]["field"], field, "{answer}");
    }
    // From here on `podIP` and the first entry of `podIPs` are equal.
    let answer =
        patched(&http, &path, &json!({"podIP": "10.0.0.1", "hostIP": "10.0.0.9", "hostIPs": [{"ip": "10.0.0.9"}]}));
    assert_eq!((answer.code, &answer.json()["status"]["podIPs"]), (200, &json!([{"ip": "10.0.0.1"}])), "{answer}");
    let answer = patched(&http, &path, &json!({"podIP": "10.0.0.2"}));
    assert_eq!((answer.code, &answer.json()["status"]["podIPs"]), (200, &json!([{"ip": "10.0.0.2"}])), "{answer}");
    healthy(&http);
}

#[test]
fn a_container_that_has_ended_for_good_does_not_come_back() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    pod(&http, "p");
    let path = format!("{PODS}/p");
    let said = |state: Value| {
        json!({"containerStatuses": [{"name": "c", "ready": false, "restartCount": 0, "image": "i", "imageID": "i",
        "allocatedResources": {"cpu": "1"}, "state": state}]})
    };
    let answer = patched(&http, &path, &said(json!({"terminated": {"exitCode": 3}})));
    assert_eq!(answer.code, 200, "{answer}");
    // Upstream keeps the field although its documentation names a gate.
    assert_eq!(answer.json()["status"]["containerStatuses"][0]["allocatedResources"], json!({"cpu": "1"}));
    for state in [json!({"running": {}}), json!({"waiting": {"reason": "r"}})] {
        let answer = patched(&http, &path, &said(state));
        let text = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        refused(&answer, 422, "Invalid", text);
    }
    healthy(&http);
}

#[test]
fn counts_of_workloads_are_counts() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let apps = "/apis/apps/v1/namespaces/default";
    let labels = json!({"a": "b"});
    let spec = json!({"replicas": 0, "serviceName": "s", "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    for plural in ["deployments", "replicasets", "statefulsets", "daemonsets"] {
        let mut spec = spec.clone();
        if plural != "statefulsets" {
            spec.as_object_mut().unwrap().remove("serviceName");
        }
        if plural == "daemonsets" {
            spec.as_object_mut().unwrap().remove("replicas");
        }
        made(&http, &format!("{apps}/{plural}"), &json!({"metadata": {"name": "w"}, "spec": spec}));
        let path = format!("{apps}/{plural}/w");
        refused(
            &patched(&http, &path, &json!({"observedGeneration": -1})),
            422,
            "Invalid",
            "status.observedGeneration",
        );
        if plural != "daemonsets" {
            let answer = patched(&http, &path, &json!({"replicas": 1, "readyReplicas": 2}));
            refused(
                &answer,
                422,
                "Invalid",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            );
        }
        if plural != "replicasets" {
            assert_eq!(patched(&http, &path, &json!({"collisionCount": 2})).code, 200);
            let answer = patched(&http, &path, &json!({"collisionCount": 1}));
            refused(&answer, 422, "Invalid", "status.collisionCount: Invalid value: 1: cannot be decremented");
        }
    }
    healthy(&http);
}

#[test]
fn other_kinds_say_nothing_that_cannot_be_either() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let core = "/api/v1/namespaces/default";
    made(&http, &format!("{core}/services"), &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}));
    made(&http, "/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    made(
        &http,
        &format!("{core}/resourcequotas"),
        &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}}),
    );
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    made(&http, budgets, &json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}}));
    for (path, status, message) in [
        (
            format!("{core}/services/s"),
            json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}),
            "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
        ),
        ("/api/v1/nodes/n".to_owned(), json!({"capacity": {"cpu": "-1"}}), "status.capacity.cpu"),
        (format!("{core}/resourcequotas/q"), json!({"used": {"pods": "-1"}}), "status.used[pods]"),
        (format!("{budgets}/b"), json!({"currentHealthy": -1}), "status.currentHealthy"),
        ("/api/v1/namespaces/default".to_owned(), json!({"phase": "Terminating"}), "status.Phase"),
    ] {
        refused(&patched(&http, &path, &status), 422, "Invalid", message);
    }
    healthy(&http);
}

#[test]
fn events_are_found_by_who_reports_them_through_both_groups() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let event = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Act", "reason": "Because",
        "type": "Normal", "reportingController": "example.com/r", "reportingInstance": "i", "note": "n",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}});
    made(&http, "/apis/events.k8s.io/v1/namespaces/default/events", &event);
    for (group, selector) in [
        ("/apis/events.k8s.io/v1", "reportingController=example.com/r"),
        ("/apis/events.k8s.io/v1", "regarding.name=p,regarding.kind=Pod"),
        ("/api/v1", "reportingComponent=example.com/r"),
        ("/api/v1", "source=example.com/r"),
        ("/api/v1", "involvedObject.name=p"),
    ] {
        let selector = selector.replace('=', "%3D").replace('/', "%2F").replace(',', "%2C");
        let answer = http.get(&format!("{group}/namespaces/default/events?fieldSelector={selector}"));
        let names: Vec<String> = answer.json()["items"]
            .as_array()
            .unwrap_or(&Vec::new())
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(names, ["e"], "{group} {selector}: {answer}");
    }
}

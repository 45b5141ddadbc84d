//! Pods whose selectors or resources contradict each other, and resizes that are not possible. The expected answers are those of upstream.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Answer, Http, Who};
use serde_json::{Value, json};

use super::{STRATEGIC, account, healthy, invalid, patch, refused};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn create(http: &Http, name: &str, labels: &Value, spec: &Value) -> Answer {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    http.json("POST", PODS, &json!({"metadata": {"name": name, "labels": labels}, "spec": whole}))
}

#[track_caller]
fn made(answer: &Answer) -> Value {
    assert_eq!(answer.code, 201, "{answer}");
    answer.json()
}

#[test]
fn label_keys_are_part_of_the_selector_from_the_start_and_for_good() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    account(&http);
    let labels = json!({"app": "q", "b": "c"});
    let affinity =
        |term: &Value| json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let near = |keys: Value, selector: Value| {
        affinity(&json!({"topologyKey": "z", "matchLabelKeys": keys, "labelSelector": selector}))
    };
    let spread = |keys: Value, selector: Value| {
        json!({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": keys, "labelSelector": selector}]})
    };
    let chosen = || json!({"matchLabels": {"app": "q"}});
    let at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let twice = "Invalid value: \"app\": exists in both matchLabelKeys and labelSelector";
    for (spec, cause) in [
        (near(json!(["app"]), chosen()), format!("{at}[0]: {twice}")),
        (near(json!(["app", "app"]), json!({})), format!("{at}[1]: {twice}")),
        (spread(json!(["app"]), chosen()), format!("spec.topologySpreadConstraints[0][0]: {twice}")),
        (spread(json!(["app", "app"]), json!({})), format!("spec.topologySpreadConstraints[0][1]: {twice}")),
    ] {
        invalid(&create(&http, "refused", &labels, &spec), &[&cause]);
    }
    let term = json!({"topologyKey": "z", "matchLabelKeys": ["app", "none"], "mismatchLabelKeys": ["b"], "labelSelector": {"matchLabels": {"x": "y"}}});
    let pod = made(&create(&http, "near", &labels, &affinity(&term)));
    let merged = json!({"matchLabels": {"x": "y"}, "matchExpressions": [
        {"key": "app", "operator": "In", "values": ["q"]},
        {"key": "b", "operator": "NotIn", "values": ["c"]},
    ]});
    let stored = &pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(stored["labelSelector"], merged);
    let pod = made(&create(&http, "spread", &labels, &spread(json!(["app"]), json!({}))));
    let merged = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["q"]}]});
    assert_eq!(pod["spec"]["topologySpreadConstraints"][0]["labelSelector"], merged);
    let url = format!("{PODS}/spread");
    let relabelled = patch(&http, STRATEGIC, &url, &json!({"metadata": {"labels": {"app": "other"}}}));
    assert_eq!(relabelled.code, 200, "{relabelled}");
    assert_eq!(relabelled.json()["spec"], pod["spec"], "labels of later change nothing");
    let changed = patch(&http, super::MERGE, &url, &json!({"spec": spread(json!(["b"]), json!({}))}));
    refused(&changed, 422, "Invalid", "pod updates may not change fields other than");
    healthy(&http);
}

#[test]
fn a_pod_asks_for_no_less_than_its_containers() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    account(&http);
    let ask = |name: &str, whole: Value, containers: &[Value]| {
        let list: Vec<Value> = containers
            .iter()
            .enumerate()
            .map(|(i, resources)| json!({"name": format!("c{i}"), "image": "i", "resources": resources}))
            .collect();
        create(&http, name, &json!({}), &json!({"containers": list, "resources": whole}))
    };
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
    invalid(
        &ask("less", requests("100m"), &[requests("60m"), requests("60m")]),
        &[
            "spec.resources.requests[cpu]: Invalid value: \"100m\": must be greater than or equal to aggregate container requests of 120m",
        ],
    );
    invalid(
        &ask("over", json!({"limits": {"cpu": "100m"}}), &[json!({"limits": {"cpu": "200m"}})]),
        &[
            "spec.resources.requests: Invalid value: \"200m\": must be less than or equal to cpu limit of 100m",
            "spec.resources.containers[0][cpu].limits: Invalid value: \"200m\": must be less than or equal to pod limits of 100m",
        ],
    );
    let all = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (name, whole, container, class) in [
        ("guaranteed", all.clone(), json!({}), "Guaranteed"),
        ("asked-below-the-limit", all, requests("10m"), "Burstable"),
        ("burstable", requests("1"), json!({}), "Burstable"),
        ("best", json!({}), requests("10m"), "BestEffort"),
    ] {
        assert_eq!(made(&ask(name, whole, &[container]))["status"]["qosClass"], class, "{name}");
    }
    let grace = made(&create(&http, "grace", &json!({}), &json!({"terminationGracePeriodSeconds": -1})));
    assert_eq!(grace["spec"]["terminationGracePeriodSeconds"], 1);
    healthy(&http);
}

#[test]
fn only_cpu_and_memory_of_what_runs_on_are_resized() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    account(&http);
    let one = || json!({"requests": {"cpu": "1"}});
    let spec = json!({
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}}],
        "initContainers": [
            {"name": "i", "image": "i", "resources": one()},
            {"name": "s", "image": "i", "restartPolicy": "Always", "resources": one()},
        ],
    });
    made(&create(&http, "w", &json!({}), &spec));
    let resize = |spec: Value| patch(&http, STRATEGIC, &format!("{PODS}/w/resize"), &json!({"spec": spec}));
    let main = |container: Value| {
        let mut container = container;
        container["name"] = json!("c");
        resize(json!({"containers": [container]}))
    };
    let init =
        |name: &str| resize(json!({"initContainers": [{"name": name, "resources": {"requests": {"cpu": "1500m"}}}]}));
    let only = "spec: Forbidden: only cpu and memory resources are mutable";
    let limits = "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed";
    let requests = "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed";
    invalid(&init("i"), &["spec: Forbidden: resources for non-sidecar init containers are immutable"]);
    invalid(&main(json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]})), &[only]);
    invalid(&main(json!({"resources": {"requests": {"ephemeral-storage": "1Gi"}}})), &[only]);
    invalid(&main(json!({"resources": {"limits": null}})), &[limits]);
    invalid(&main(json!({"resources": {"limits": null, "requests": null}})), &[limits, requests]);
    invalid(
        &resize(json!({"containers": [{"name": "n", "image": "i"}]})),
        &["spec.containers: Forbidden: containers may not be added or removed on resize"],
    );
    let before = http.get(&format!("{PODS}/w")).json();
    assert_eq!(before["metadata"]["generation"], 1, "nothing of it was written");
    assert_eq!(init("s").code, 200);
    assert_eq!(main(json!({"resources": {"requests": {"cpu": "1500m"}}})).code, 200);
    let after = http.get(&format!("{PODS}/w")).json();
    assert_eq!(after["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1500m");
    assert_eq!(after["spec"]["initContainers"][1]["resources"]["requests"]["cpu"], "1500m");
    healthy(&http);
}

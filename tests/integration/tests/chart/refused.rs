//! Values that the chart refuses, each with an error that names the value.

use super::helm::{Helm, MODES};

/// Values, and what Helm's error says.
const BAD: &[(&[&str], &[&str])] = &[
    (&["etcd.replicas=2"], &["/etcd/replicas", "1, 3, 5"]),
    (&["etcd.replicas=4"], &["/etcd/replicas"]),
    (&["etcd.replica=3"], &["/etcd", "replica"]),
    (&["mode=half"], &["/mode", "scheduler-only"]),
    (&["apiserver.replicas=0"], &["/apiserver/replicas"]),
    (&["apiserver.replicas=two"], &["/apiserver/replicas", "integer"]),
    (&["apiserver.extraArgs={log=debug}"], &["/apiserver/extraArgs/0"]),
    (&["apiserver.resources.limit.memory=1Gi"], &["/apiserver/resources", "limit"]),
    (&["image.pullPolicy=Sometimes"], &["/image/pullPolicy", "IfNotPresent"]),
    (&["api.url=http://api.example.org"], &["/api/url"]),
    (&["api.service.type=ExternalName"], &["/api/service/type", "LoadBalancer"]),
    (&["etcd.persistence.size=big"], &["/etcd/persistence/size"]),
    (&["etcd.external.endpoints={http://etcd:2379}"], &["/etcd/external/endpoints/0"]),
    (&["snapshots.schedule=hourly"], &["/snapshots/schedule"]),
    (&["snapshots.keep=0"], &["/snapshots/keep"]),
    (&["scheduler.names={A B}"], &["/scheduler/names/0"]),
    (&["replicas=3"], &["replicas"]),
    (&["podAnnotations.a=1"], &["/podAnnotations/a"]),
    (&["keys.nodes.Edge_1=10.0.0.11"], &["/keys/nodes", "Edge_1"]),
    (&["keys.nodes.edge-1=scheduler"], &["/keys/nodes/edge-1"]),
    (&["keys.nodes.a=10.0.0.11", "keys.nodes.b=10.0.0.11"], &["keys.nodes: two nodes"]),
    (&["konnectivity.enabled=maybe"], &["/konnectivity/enabled", "boolean"]),
    (&["konnectivity.hostnames={a b}"], &["/konnectivity/hostnames/0"]),
    (&["konnectivity.service.type=ExternalName"], &["/konnectivity/service/type", "LoadBalancer"]),
    (&["konnectivity.service.port=1"], &["/konnectivity/service", "port"]),
    (&["konnectivity.extraArgs={mode=grpc}"], &["/konnectivity/extraArgs/0"]),
    (
        &["apiserver.extraArgs={--egress-selector-config-file=/x}"],
        &["apiserver.extraArgs has --egress-selector-config-file", "konnectivity.enabled"],
    ),
    (&["cloudControllerManager.enabled=true"], &["cloudControllerManager.endpoint"]),
    (&["etcd.external.endpoints={https://etcd:2379}"], &["etcd.external.secret", "client.key"]),
    (&["mode=apiserver-over-existing-etcd"], &["etcd.external.endpoints is empty"]),
    (&["mode=scheduler-only"], &["scheduler.replicas is 2", "one process"]),
    (&["mode=controllers-only"], &["controllerManager.replicas is 2"]),
    (&["mode=controllers-only", "controllerManager.replicas=1"], &["controllerManager.controllers must name"]),
    (
        &["mode=controllers-only", "controllerManager.replicas=1", "controllerManager.controllers={*}"],
        &["controllerManager.controllers must name"],
    ),
    (
        &["apiserver.autoscaling.enabled=true", "apiserver.autoscaling.minReplicas=9"],
        &["apiserver.autoscaling.minReplicas is greater"],
    ),
];

#[test]
fn a_bad_value_is_refused_by_its_name() {
    let Some(helm) = Helm::new() else { return };
    for (values, texts) in BAD {
        let ran = helm.chart("template", "rel", values, &[]);
        assert!(ran.code != 0 && ran.out.is_empty(), "{values:?}: {ran}");
        for text in *texts {
            assert!(ran.err.contains(text), "{values:?}: {text:?} is missing in {}", ran.err);
        }
    }
}

#[test]
fn the_schema_says_why_no_even_number_of_members() {
    let schema = std::fs::read_to_string(super::helm::repository("helm/oarlock/values.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let replicas = &schema["properties"]["etcd"]["properties"]["replicas"];
    assert_eq!(replicas["enum"], serde_json::json!([1, 3, 5]));
    assert!(replicas["description"].as_str().unwrap().contains("majority"));
    let open = unclosed("", &schema);
    assert!(open.is_empty(), "these take any further value: {open:?}");
    assert_eq!(schema["properties"]["mode"]["enum"].as_array().unwrap().len(), MODES.len());
}

/// Returns the paths of objects with known properties that take others too.
fn unclosed(at: &str, schema: &serde_json::Value) -> Vec<String> {
    let own = schema["properties"].is_object() && schema["additionalProperties"] != false;
    let mut found: Vec<String> = own.then(|| at.to_owned()).into_iter().collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(unclosed(&format!("{at}/{name}"), property));
    }
    found
}

use oarlock_client::decode;
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};

use super::*;

fn object(value: &Value) -> Obj {
    decode(type_of_kind("", "v1", "Pod").unwrap(), value.to_string().as_bytes()).unwrap()
}

fn sample() -> Obj {
    object(&json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1",
            "labels": {"app": "web", "b/c": "x\"y"}, "annotations": {"Big/Key": "v"}},
        "spec": {"nodeName": "n1", "serviceAccountName": "robot",
            "initContainers": [{"name": "init", "resources": {"limits": {"cpu": "1500m"}}}],
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"},
                    "limits": {"memory": "100Mi", "hugepages-2Mi": "4Mi"}}},
                {"name": "bare"},
            ]},
    }))
}

fn around() -> Surroundings {
    Surroundings {
        host_ips: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        pod_ips: vec!["10.244.0.7".parse().unwrap(), "fd01::7".parse().unwrap()],
        allocatable: [("cpu", "4"), ("memory", "8Gi"), ("ephemeral-storage", "10Gi")]
            .into_iter()
            .map(|(name, amount)| (name.into(), amount.into()))
            .collect(),
    }
}

#[test]
fn every_field_that_the_api_allows_has_its_value() {
    let object = sample();
    let (pod, around) = (pod(&object), around());
    for (path, want) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['Big/Key']", "v"),
        ("metadata.labels", "app=\"web\"\nb/c=\"x\\\"y\""),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1,fd00::1"),
        ("status.podIP", "10.244.0.7"),
        ("status.podIPs", "10.244.0.7,fd01::7"),
    ] {
        assert_eq!(field(pod, path, &around).as_deref(), Ok(want), "{path}");
    }
}

#[test]
fn fields_that_do_not_exist_are_refused_with_upstreams_texts() {
    let object = sample();
    let pod = pod(&object);
    assert_eq!(metadata(pod, "status.podIP"), Err(PodError::Invalid("unsupported fieldPath: status.podIP".to_owned())));
    assert_eq!(
        metadata(pod, "metadata.name['x']"),
        Err(PodError::Invalid("fieldPath \"metadata.name['x']\" does not support subscript".to_owned()))
    );
    let refused = metadata(pod, "metadata.labels['no good']").unwrap_err().to_string();
    assert!(refused.starts_with("invalid key subscript in metadata.labels['no good']: "), "{refused}");
}

#[test]
fn resources_are_divided_and_rounded_up_and_limits_default_to_what_the_node_can_give() {
    let object = sample();
    let (pod, around) = (pod(&object), around());
    let read = |container: &str, resource: &str, divisor: &str, own: &str| {
        let probe = object_with_reference(container, resource, divisor);
        let holder = super::pod(&probe);
        let reference = holder.spec().containers().get(0).unwrap().env().get(0).unwrap();
        let reference = reference.value_from().unwrap().resource_field_ref().unwrap();
        super::resource(reference, pod, find(pod, own), &around)
    };
    for (container, resource, divisor, want) in [
        ("", "requests.cpu", "0", "1"),
        ("", "requests.cpu", "1m", "250"),
        ("", "requests.memory", "1Mi", "64"),
        ("", "limits.memory", "1M", "105"),
        ("", "limits.cpu", "1", "4"),
        ("", "limits.ephemeral-storage", "1Gi", "10"),
        ("", "requests.ephemeral-storage", "1", "0"),
        ("", "limits.hugepages-2Mi", "1Mi", "4"),
        ("bare", "limits.memory", "1Gi", "8"),
        ("init", "limits.cpu", "1", "2"),
    ] {
        assert_eq!(read(container, resource, divisor, "main").as_deref(), Ok(want), "{container} {resource} {divisor}");
    }
    assert_eq!(
        read("nobody", "limits.cpu", "1", "main"),
        Err(PodError::Invalid("container nobody not found".to_owned()))
    );
    assert_eq!(
        read("", "limits.example.com/gpu", "1", "main"),
        Err(PodError::Invalid("unsupported container resource : limits.example.com/gpu".to_owned()))
    );
}

#[test]
fn a_limit_of_the_whole_pod_comes_before_that_of_the_node() {
    let object = object(&json!({"spec": {
        "resources": {"limits": {"memory": "1Gi"}},
        "containers": [{"name": "main"}],
    }}));
    let pod = pod(&object);
    assert_eq!(default_limit(pod, "memory", &around()).value(), 1 << 30);
    assert_eq!(default_limit(pod, "cpu", &around()).value(), 4);
}

fn object_with_reference(container: &str, resource: &str, divisor: &str) -> Obj {
    object(&json!({"spec": {"containers": [{"name": "c", "env": [{"name": "X", "valueFrom": {"resourceFieldRef":
        {"containerName": container, "resource": resource, "divisor": divisor}}}]}]}}))
}

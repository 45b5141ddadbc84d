//! Upstream's answers to pods and Services with contradictory fields; each row is recorded.

use oarlock_schema::Obj;
use serde_json::{Value, json};

use crate::common;

fn pod(labels: &Value, spec: &Value) -> Obj {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let metadata = json!({"name": "p", "namespace": "n", "labels": labels});
    let (_, mut pod) = common::obj(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}));
    oarlock_apis::default(&mut pod);
    oarlock_apis::core::label_keys::merge(&mut pod);
    pod
}

fn errors(obj: &Obj) -> Vec<String> {
    let resource = oarlock_schema::resource_of_kind("", "v1", obj.ty().short_name()).unwrap();
    let mut told: Vec<String> =
        oarlock_apis::validate_create(resource, obj).iter().map(|e| format!("{}: {}", e.field, e.body())).collect();
    told.sort();
    told
}

fn near(kind: &str, term: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn a_key_is_in_a_pods_selector_once() {
    let labels = json!({"app": "q"});
    let term =
        |keys: Value, selector: Value| json!({"topologyKey": "z", "matchLabelKeys": keys, "labelSelector": selector});
    let twice =
        |at: &str| vec![format!("spec.{at}: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector")];
    let exists = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = |i: usize| format!("affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution[0][{i}]");
        let told = |keys: Value, selector: Value| errors(&pod(&labels, &near(kind, &term(keys, selector))));
        assert_eq!(told(json!(["app"]), json!({"matchLabels": {"app": "q"}})), twice(&at(0)));
        assert_eq!(told(json!(["app"]), exists.clone()), twice(&at(0)));
        assert_eq!(told(json!(["app", "app"]), json!({})), twice(&at(1)));
        assert_eq!(told(json!(["none", "none"]), json!({})), Vec::<String>::new(), "the pod has no such label");
        let weighted = json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": term(json!(["app"]), exists.clone())}
        ]}}});
        let at = format!("affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm[0]");
        assert_eq!(errors(&pod(&labels, &weighted)), twice(&at));
    }
    let mismatch =
        json!({"topologyKey": "z", "mismatchLabelKeys": ["app"], "labelSelector": {"matchLabels": {"app": "q"}}});
    assert_eq!(errors(&pod(&labels, &near("podAffinity", &mismatch))), Vec::<String>::new());
    let spread = |keys: Value| {
        let one = json!({"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": keys, "labelSelector": exists});
        errors(&pod(&labels, &json!({"topologySpreadConstraints": [one]})))
    };
    assert_eq!(spread(json!(["app"])), twice("topologySpreadConstraints[0][0]"));
}

#[test]
fn label_keys_join_the_selector_with_the_values_that_the_pod_has() {
    let term = json!({"topologyKey": "z", "matchLabelKeys": ["app"], "mismatchLabelKeys": ["b", "none"], "labelSelector": {"matchLabels": {"x": "y"}}});
    let labels = json!({"app": "q", "b": "c"});
    let pod = pod(&labels, &near("podAntiAffinity", &term));
    let terms =
        pod.at(&["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"]).unwrap();
    let mut text = Vec::new();
    oarlock_codec::json::encode_value(terms.items()[0].get("labelSelector").unwrap(), &mut text);
    let merged: Value = serde_json::from_slice(&text).unwrap();
    let expressions = json!([
        {"key": "app", "operator": "In", "values": ["q"]},
        {"key": "b", "operator": "NotIn", "values": ["c"]},
    ]);
    assert_eq!(merged, json!({"matchLabels": {"x": "y"}, "matchExpressions": expressions}));
}

#[test]
fn a_pod_asks_for_no_less_and_allows_no_less_than_its_containers() {
    let told = |own: Value, containers: &[Value], init: Value| {
        let named =
            |i: usize, resources: &Value| json!({"name": format!("c{i}"), "image": "i", "resources": resources});
        let list: Vec<Value> = containers.iter().enumerate().map(|(i, r)| named(i, r)).collect();
        errors(&pod(&json!({}), &json!({"containers": list, "initContainers": init, "resources": own})))
    };
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
    let less = |pod: &str, sum: &str| {
        vec![format!(
            "spec.resources.requests[cpu]: Invalid value: \"{pod}\": must be greater than or equal to aggregate container requests of {sum}"
        )]
    };
    assert_eq!(told(cpu("100m"), &[cpu("60m"), cpu("60m")], json!([])), less("100m", "120m"));
    let init = |policy: Value, amount: &str| json!([{"name": "i", "image": "i", "restartPolicy": policy, "resources": cpu(amount)}]);
    assert_eq!(told(cpu("100m"), &[cpu("50m")], init(Value::Null, "200m")), less("100m", "200m"));
    assert_eq!(told(cpu("100m"), &[cpu("60m")], init(json!("Always"), "60m")), less("100m", "120m"));
    assert_eq!(told(cpu("120m"), &[cpu("60m")], init(json!("Always"), "60m")), Vec::<String>::new());
    assert_eq!(
        told(json!({"limits": {"cpu": "100m"}}), &[json!({"limits": {"cpu": "200m"}})], json!([])),
        [
            "spec.resources.containers[0][cpu].limits: Invalid value: \"200m\": must be less than or equal to pod limits of 100m",
            "spec.resources.requests: Invalid value: \"200m\": must be less than or equal to cpu limit of 100m",
        ]
    );
    let huge = |amount: &str, cpu: bool| {
        let mut list = json!({"requests": {"hugepages-2Mi": amount}, "limits": {"hugepages-2Mi": amount}});
        if cpu {
            list["requests"]["cpu"] = json!("1");
        }
        list
    };
    assert_eq!(
        told(huge("2Mi", true), &[huge("4Mi", false)], json!([])),
        [
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
            "spec.resources.containers[0][hugepages-2Mi].limits: Invalid value: \"4Mi\": must be less than or equal to pod limits of 2Mi",
            "spec.resources.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate container limits of 4Mi",
            "spec.resources.requests[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate container requests of 4Mi",
        ]
    );
    assert_eq!(
        told(json!({"requests": {"ephemeral-storage": "1"}}), &[cpu("10m")], json!([])),
        [
            "spec.resources.requests[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\""
        ]
    );
    assert_eq!(
        told(json!({"claims": [{"name": "x"}]}), &[cpu("10m")], json!([])),
        [
            "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
            "spec.resources.claims[0]: Not found: \"x\": must be one of the names in pod.spec.resourceClaims which is empty",
        ]
    );
    let windows = pod(&json!({}), &json!({"os": {"name": "windows"}, "resources": cpu("1")}));
    assert_eq!(errors(&windows), ["spec.resources: Forbidden: may not be set for a windows pod"]);
}

#[test]
fn a_pod_waits_a_second_where_it_says_less_than_nothing_and_a_template_says_so() {
    let seconds = |obj: &Obj, path: &[&str]| obj.at(path).and_then(oarlock_schema::Value::as_int);
    let path = ["spec", "terminationGracePeriodSeconds"];
    for (given, kept) in [(-1, 1), (-7, 1), (0, 0), (30, 30)] {
        let pod = pod(&json!({}), &json!({"terminationGracePeriodSeconds": given}));
        assert_eq!(seconds(&pod, &path), Some(kept), "{given}");
    }
    let template = json!({"spec": {"terminationGracePeriodSeconds": -7, "containers": []}});
    let (_, mut template) = common::obj(&json!({"apiVersion": "v1", "kind": "PodTemplate", "template": template}));
    oarlock_apis::default(&mut template);
    assert_eq!(seconds(&template, &["template", "spec", "terminationGracePeriodSeconds"]), Some(-7));
}

#[test]
fn addresses_of_a_service_are_one_a_family_and_of_the_family_at_their_place() {
    let told = |addresses: &Value, families: &Value| {
        let spec = json!({"ports": [{"port": 80}], "clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilies": families});
        let (_, mut service) = common::obj(
            &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": spec}),
        );
        oarlock_apis::default(&mut service);
        errors(&service)
    };
    let at = "spec.clusterIPs";
    let four = json!(["10.96.0.99"]);
    assert_eq!(told(&four, &json!(["IPv4"])), Vec::<String>::new());
    let wrong =
        format!("{at}[0]: Invalid value: \"10.96.0.99\": expected an IPv6 value as indicated by `ipFamilies[0]`");
    assert_eq!(told(&four, &json!(["IPv6"])), [wrong]);
    let same = format!(
        "{at}: Invalid value: [\"10.96.0.99\",\"10.96.0.98\"]: may specify no more than one IP for each IP family"
    );
    assert_eq!(told(&json!(["10.96.0.99", "10.96.0.98"]), &json!([])), [same]);
    let none = format!("{at}: Invalid value: [\"None\",\"10.96.0.98\"]: 'None' must be the first and only value");
    assert_eq!(told(&json!(["None", "10.96.0.98"]), &json!([])), [none]);
    let later =
        format!("{at}[1]: Invalid value: \"None\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    assert_eq!(told(&json!(["10.96.0.99", "None"]), &json!([])), [later]);
}

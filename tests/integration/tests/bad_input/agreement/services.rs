//! Addresses, families and ports of Services: upstream was asked the same.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::{Answer, Http, Who};
use serde_json::{Value, json};

use super::{MERGE, healthy, invalid, patch, refused};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn create(http: &Http, name: &str, spec: Value) -> Answer {
    let mut spec = spec;
    spec["ports"] = json!([{"port": 80}]);
    http.json("POST", SERVICES, &json!({"metadata": {"name": name}, "spec": spec}))
}

fn change(http: &Http, name: &str, spec: &Value) -> Answer {
    patch(http, MERGE, &format!("{SERVICES}/{name}"), &json!({"spec": spec}))
}

#[track_caller]
fn spec(answer: &Answer) -> Value {
    assert!(matches!(answer.code, 200 | 201), "{answer}");
    answer.json()["spec"].clone()
}

#[test]
fn a_port_to_check_a_balanced_service_at_is_held_as_long_as_it_is_needed() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let local = |port: i64| json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port, "selector": {"a": "b"}});
    let port = |spec: &Value| spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    let free = spec(&create(&http, "any", local(0)));
    assert!((30_000..=32_767).contains(&port(&free)) && port(&free) != free["ports"][0]["nodePort"], "{free}");
    assert_eq!(port(&spec(&create(&http, "s", local(31_234)))), 31_234);
    let taken = "Internal error occurred: failed to allocate requested HealthCheck NodePort 31234: provided port is already allocated";
    refused(&create(&http, "t", local(31_234)), 500, "InternalError", taken);
    let range = "failed to allocate requested HealthCheck NodePort 1: provided port is not in the valid range. The range of valid ports is 30000-32767";
    refused(&create(&http, "t", local(1)), 500, "InternalError", range);
    let node = http.json(
        "POST",
        SERVICES,
        &json!({"metadata": {"name": "t"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31234}]}}),
    );
    invalid(&node, &["spec.ports[0].nodePort: Invalid value: 31234: provided port is already allocated"]);
    invalid(
        &change(&http, "s", &json!({"healthCheckNodePort": 31_999})),
        &["spec.healthCheckNodePort: Forbidden: field is immutable"],
    );
    assert_eq!(port(&spec(&change(&http, "s", &json!({"healthCheckNodePort": null})))), 31_234, "it is kept");
    assert_eq!(port(&spec(&change(&http, "s", &json!({"externalTrafficPolicy": "Cluster"})))), 0);
    assert_eq!(port(&spec(&create(&http, "t", local(31_234)))), 31_234, "it is free again");
    assert_ne!(port(&spec(&change(&http, "s", &json!({"externalTrafficPolicy": "Local"})))), 0);
    assert_eq!(http.json("DELETE", &format!("{SERVICES}/t"), &json!({})).code, 200);
    assert_eq!(port(&spec(&create(&http, "u", local(31_234)))), 31_234, "a deleted Service holds nothing");
    // An update with a manifest without node ports keeps the allocated ports.
    let before = spec(&http.get(&format!("{SERVICES}/u")));
    let mut again = local(0);
    again["ports"] = json!([{"port": 80}]);
    let after = http.json("PUT", &format!("{SERVICES}/u"), &json!({"metadata": {"name": "u"}, "spec": again}));
    assert_eq!(spec(&after), before);
    healthy(&http);
}

#[test]
fn protocols_of_one_port_share_a_node_port() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let make = |name: &str, ports: Value| {
        let body = json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}});
        http.json("POST", SERVICES, &body)
    };
    let pair = |tcp: i64, udp: i64| json!([{"name": "a", "port": 53, "protocol": "TCP", "nodePort": tcp}, {"name": "b", "port": 53, "protocol": "UDP", "nodePort": udp}]);
    let given = |answer: &Answer| {
        let ports = spec(answer)["ports"].clone();
        (ports[0]["nodePort"].as_i64().unwrap(), ports[1]["nodePort"].as_i64().unwrap())
    };
    let (tcp, udp) = given(&make("any", pair(0, 0)));
    assert_eq!(tcp, udp);
    assert_eq!(given(&make("one", pair(0, 31_100))), (31_100, 31_100));
    assert_eq!(given(&make("both", pair(31_101, 31_101))), (31_101, 31_101));
    assert_eq!(given(&change(&http, "any", &json!({"ports": pair(0, 0)}))), (tcp, udp), "they are kept");
    let taken = "spec.ports[0].nodePort: Invalid value: 31101: provided port is already allocated";
    invalid(&make("other", pair(31_101, 0)), &[taken]);
    healthy(&http);
}

#[test]
fn families_follow_from_policy_address_and_selector() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let families = |answer: &Answer| {
        let spec = spec(answer);
        (spec["ipFamilies"].clone(), spec["ipFamilyPolicy"].clone())
    };
    let both = json!(["IPv4", "IPv6"]);
    let headless = create(&http, "headless", json!({"clusterIP": "None"}));
    assert_eq!(families(&headless), (both.clone(), json!("RequireDualStack")));
    let chosen = create(&http, "chosen", json!({"clusterIP": "None", "selector": {"a": "b"}}));
    assert_eq!(families(&chosen), (json!(["IPv4"]), json!("SingleStack")));
    let single = change(&http, "headless", &json!({"ipFamilyPolicy": "SingleStack"}));
    assert_eq!(families(&single), (json!(["IPv4"]), json!("SingleStack")));
    let named = || json!({"type": "ExternalName", "externalName": "a.b"});
    for (name, spec, wanted) in [
        ("prefer", json!({"ipFamilyPolicy": "PreferDualStack"}), (json!(["IPv4"]), json!("PreferDualStack"))),
        ("none", json!({"clusterIP": "None"}), (both.clone(), json!("RequireDualStack"))),
        ("plain", json!({}), (json!(["IPv4"]), json!("SingleStack"))),
    ] {
        assert_eq!(create(&http, name, named()).code, 201);
        let mut spec = spec;
        spec["type"] = json!("ClusterIP");
        spec["externalName"] = Value::Null;
        assert_eq!(families(&change(&http, name, &spec)), wanted, "{name}");
    }
    let back = spec(&change(&http, "prefer", &named()));
    assert_eq!((&back["clusterIP"], &back["ipFamilyPolicy"]), (&Value::Null, &Value::Null), "{back}");
    assert_eq!(create(&http, "require", named()).code, 201);
    invalid(
        &change(
            &http,
            "require",
            &json!({"type": "ClusterIP", "externalName": null, "ipFamilyPolicy": "RequireDualStack"}),
        ),
        &[
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ],
    );
    invalid(
        &create(&http, "several", json!({"selector": {"a": "b"}, "ipFamilies": ["IPv4", "IPv6"]})),
        &[
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ],
    );
    healthy(&http);
}

#[test]
fn cluster_ips_that_nobody_can_have_are_refused() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let ask = |ip: &str| create(&http, "refused", json!({"clusterIP": ip, "selector": {"a": "b"}}));
    let own = http.get(&format!("{SERVICES}/kubernetes")).json()["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let range = |ip: &str| {
        let why = format!("failed to allocate IP {ip}: the provided network does not match the current range");
        invalid(&ask(ip), &[&format!("spec.clusterIPs: Invalid value: [\"{ip}\"]: {why}")]);
        let body = json!({"metadata": {"name": "refused"}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
        let answer = http.json("POST", &format!("{SERVICES}?dryRun=All"), &body);
        let start = format!(
            "spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: the provided IP ({ip}) is not in the valid range. The range of valid IPs is "
        );
        refused(&answer, 422, "Invalid", &start);
    };
    range("1.2.3.4");
    range(&format!("{}.0", own.rsplit_once('.').unwrap().0));
    invalid(
        &ask("fd00::1"),
        &["spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"],
    );
    invalid(
        &create(&http, "refused", json!({"clusterIP": "fd00::1", "ipFamilies": ["IPv4"]})),
        &["spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[0]`"],
    );
    invalid(
        &create(&http, "refused", json!({"clusterIPs": ["None"]})),
        &["spec.clusterIPs: Invalid value: [\"None\"]: must be empty when `clusterIP` is not specified"],
    );
    let taken = format!(
        "spec.clusterIPs: Invalid value: [\"{own}\"]: failed to allocate IP {own}: provided IP is already allocated"
    );
    invalid(&ask(&own), &[&taken]);
    healthy(&http);
}

use std::sync::Arc;

use oarlock_client::decode;
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};

use super::services::{ServicePort, host_port};
use super::*;
use crate::references::Kind;

fn object(kind: &str, value: &Value) -> Obj {
    decode(type_of_kind("", "v1", kind).unwrap(), value.to_string().as_bytes()).unwrap()
}

fn pod_with(container: &Value) -> Obj {
    let mut container = container.clone();
    container["name"] = "main".into();
    object("Pod", &json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": [container]}}))
}

fn found() -> Found {
    let missing = |resource: &str, name: &str| Err(Status::not_found(&GroupResource::new("", resource), name));
    let map = json!({"data": {"a": "from map", "b": "$(A)"}, "binaryData": {"raw": "AAE="}});
    let secret = json!({"data": {"key": "c2VjcmV0", "bad": "/w=="}});
    let mut found = Found::default();
    found.insert(Reference::config_map("map"), Ok(Arc::new(object("ConfigMap", &map))));
    found.insert(Reference::secret("sec"), Ok(Arc::new(object("Secret", &secret))));
    found.insert(Reference::config_map("none"), missing("configmaps", "none"));
    found.insert(Reference::secret("none"), missing("secrets", "none"));
    found
}

fn made(container: &Value, services: &Variables) -> Result<Variables, PodError> {
    let object = pod_with(container);
    let pod = downward::pod(&object);
    let container = pod.spec().containers().get(0).unwrap();
    variables(pod, container, &Surroundings::default(), &found(), services)
}

fn pairs(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn values_expand_to_what_was_declared_before_them_and_to_services() {
    let services = pairs(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("A", "service")]);
    let got = made(
        &json!({"env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)-$(KUBERNETES_SERVICE_HOST)-$(LATER)-$$(A)"},
            {"name": "LATER", "value": "2"},
            {"name": "A2", "value": "$(LATER)"},
            {"name": "NONE"},
        ]}),
        &services,
    );
    let want = pairs(&[
        ("A", "1"),
        ("A2", "2"),
        ("B", "1-10.96.0.1-$(LATER)-$(A)"),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("LATER", "2"),
        ("NONE", ""),
    ]);
    assert_eq!(got, Ok(want));
}

#[test]
fn all_of_a_map_comes_with_a_prefix_and_env_overrides_it() {
    let got = made(
        &json!({
            "envFrom": [
                {"prefix": "P_", "configMapRef": {"name": "map"}},
                {"configMapRef": {"name": "map"}},
                {"configMapRef": {"name": "none", "optional": true}},
                {"secretRef": {"name": "none", "optional": true}},
            ],
            "env": [{"name": "a", "value": "own $(P_a)"}],
        }),
        &Variables::new(),
    );
    // Values from ConfigMaps are not expanded, and binary data do not become variables.
    assert_eq!(got, Ok(pairs(&[("P_a", "from map"), ("P_b", "$(A)"), ("a", "own from map"), ("b", "$(A)")])));
}

#[test]
fn single_keys_come_from_maps_and_secrets() {
    let key = |source: &str, name: &str, key: &str, optional: bool| json!({"name": "X", "valueFrom": {source: {"name": name, "key": key, "optional": optional}}});
    let of = |var: Value| made(&json!({"env": [var]}), &Variables::new());
    assert_eq!(of(key("configMapKeyRef", "map", "a", false)), Ok(pairs(&[("X", "from map")])));
    assert_eq!(of(key("secretKeyRef", "sec", "key", false)), Ok(pairs(&[("X", "secret")])));
    for (source, name) in [("configMapKeyRef", "map"), ("configMapKeyRef", "none"), ("secretKeyRef", "none")] {
        assert_eq!(of(key(source, name, "no", true)), Ok(Variables::new()), "{source} {name}");
    }
    let refused = [
        (key("configMapKeyRef", "map", "no", false), "couldn't find key no in ConfigMap shop/map"),
        (key("secretKeyRef", "sec", "no", false), "couldn't find key no in Secret shop/sec"),
        (key("configMapKeyRef", "none", "a", false), "configmaps \"none\" not found"),
        (key("secretKeyRef", "none", "a", false), "secrets \"none\" not found"),
        (key("secretKeyRef", "sec", "bad", false), "key bad of Secret sec is not UTF-8"),
    ];
    for (var, why) in refused {
        assert_eq!(of(var), Err(PodError::NotReady(why.to_owned())));
    }
}

#[test]
fn the_references_of_an_environment_are_each_named_once() {
    let object = pod_with(&json!({
        "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}],
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    }));
    let needs = needs(downward::pod(&object).spec().containers().get(0).unwrap());
    let names: Vec<(Kind, &str)> = needs.iter().map(|need| (need.kind, need.name.as_str())).collect();
    assert_eq!(names, [(Kind::ConfigMap, "m"), (Kind::Secret, "s"), (Kind::Secret, "t")]);
}

#[test]
fn services_are_told_as_docker_links() {
    let port = |name: &str, protocol: &str, port| ServicePort { name: name.into(), protocol: protocol.into(), port };
    let web =
        ServiceView { address: "10.96.0.7".into(), ports: vec![port("http", "TCP", 80), port("dns-udp", "UDP", 53)] };
    let headless = ServiceView { address: "None".into(), ports: web.ports.clone() };
    let api = ServiceView { address: "10.96.0.1".into(), ports: vec![port("https", "TCP", 443)] };
    let other = ServiceView { address: "10.96.0.9".into(), ports: vec![port("", "TCP", 1)] };
    let all = [
        ("shop", "my-web", &web),
        ("shop", "headless", &headless),
        ("default", "kubernetes", &api),
        ("default", "other", &other),
    ];
    let of = |namespace, links| service_variables(all.iter().copied(), namespace, links);
    let own = of("shop", true);
    for (name, value) in [
        ("MY_WEB_SERVICE_HOST", "10.96.0.7"),
        ("MY_WEB_SERVICE_PORT", "80"),
        ("MY_WEB_SERVICE_PORT_HTTP", "80"),
        ("MY_WEB_SERVICE_PORT_DNS_UDP", "53"),
        ("MY_WEB_PORT", "tcp://10.96.0.7:80"),
        ("MY_WEB_PORT_80_TCP", "tcp://10.96.0.7:80"),
        ("MY_WEB_PORT_80_TCP_PROTO", "tcp"),
        ("MY_WEB_PORT_80_TCP_PORT", "80"),
        ("MY_WEB_PORT_80_TCP_ADDR", "10.96.0.7"),
        ("MY_WEB_PORT_53_UDP", "udp://10.96.0.7:53"),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
    ] {
        assert_eq!(own.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!own.keys().any(|name| name.starts_with("HEADLESS") || name.starts_with("OTHER")), "{own:?}");
    let unlinked = of("shop", false);
    assert_eq!(unlinked.len(), 8, "the API's address comes in any case: {unlinked:?}");
    assert!(of("default", true).contains_key("OTHER_PORT"));
    assert_eq!(host_port("fd00::1", 80), "[fd00::1]:80");
}

#[test]
fn command_lines_and_sub_paths_expand() {
    let object = pod_with(&json!({
        "command": ["sh", "$(A)", "$(NO)"], "args": ["-c", "$$(A)"],
        "env": [{"name": "S", "value": "static"}],
    }));
    let container = downward::pod(&object).spec().containers().get(0).unwrap();
    let variables = pairs(&[("A", "1"), ("E", "")]);
    let (command, args) = command_line(container, &variables);
    assert_eq!(
        (command.as_slice(), args.as_slice()),
        (&["sh", "1", "$(NO)"].map(String::from)[..], &["-c", "$(A)"].map(String::from)[..])
    );
    assert_eq!(static_command(["$(S)", "$(A)"].into_iter(), container), ["static", "$(A)"]);
    assert_eq!(sub_path("x/$(A)", &variables).as_deref(), Ok("x/1"));
    assert_eq!(sub_path("$(Z)/$(E)/$(B)", &variables), Err(PodError::NotReady("missing value for B, E, Z".to_owned())));
}

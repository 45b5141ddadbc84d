use oarlock_client::decode;
use oarlock_schema::{Obj, type_of_kind};
use serde_json::{Value, json};

use super::*;
use crate::downward;

const HOST: &str = "# comment\nnameserver 9.9.9.9\nnameserver 8.8.8.8\nsearch old.example\nsearch lan. example.com .\n\
    options timeout:1 rotate\noptions timeout:3\n";

fn object(spec: &Value) -> Obj {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec});
    decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap()
}

fn dns() -> Dns {
    Dns {
        servers: vec!["10.96.0.10".parse().unwrap()],
        domain: "cluster.local".to_owned(),
        host: Some(HOST.to_owned()),
        node_ips: vec!["10.0.0.1".parse().unwrap()],
    }
}

fn of(spec: &Value, dns: &Dns) -> (DnsConfig, Vec<(&'static str, String)>) {
    of_pod(downward::pod(&object(spec)), dns).unwrap()
}

fn config(servers: &[&str], searches: &[&str], options: &[&str]) -> DnsConfig {
    let all = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
    DnsConfig { servers: all(servers), searches: all(searches), options: all(options) }
}

#[test]
fn each_policy_has_its_servers() {
    let cluster = config(
        &["10.96.0.10"],
        &["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan", "example.com"],
        &["ndots:5"],
    );
    let host = config(&["9.9.9.9", "8.8.8.8"], &["lan", "example.com"], &["timeout:3", "rotate"]);
    for (spec, want) in [
        (json!({"dnsPolicy": "ClusterFirst"}), &cluster),
        (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), &host),
        (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), &cluster),
        (json!({"dnsPolicy": "Default"}), &host),
        (json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}), &config(&["1.1.1.1"], &[], &[])),
    ] {
        assert_eq!(of(&spec, &dns()), (want.clone(), Vec::new()), "{spec}");
    }
}

#[test]
fn the_pods_own_configuration_is_merged() {
    let spec = json!({"dnsPolicy": "ClusterFirst", "dnsConfig": {
        "nameservers": ["10.96.0.10", "1.1.1.1"], "searches": ["lan", "my.org"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }});
    let (got, told) = of(&spec, &dns());
    assert_eq!(got.servers, ["10.96.0.10", "1.1.1.1"]);
    assert_eq!(got.searches.last().map(String::as_str), Some("my.org"));
    assert_eq!(got.options, ["ndots:2", "edns0"]);
    assert!(told.is_empty());
}

#[test]
fn without_a_cluster_server_the_nodes_own_serves_and_users_are_told() {
    let mut dns = dns();
    dns.servers.clear();
    let (got, told) = of(&json!({"dnsPolicy": "ClusterFirst"}), &dns);
    assert_eq!(got.servers, ["9.9.9.9", "8.8.8.8"]);
    let want = "pod: \"web_shop(u1)\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \
        \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
    assert_eq!(told, [("MissingClusterDNS", want.to_owned())]);
    dns.host = None;
    assert_eq!(of(&json!({"dnsPolicy": "Default"}), &dns).0, config(&["127.0.0.1"], &["."], &[]));
}

#[test]
fn what_resolvers_would_not_take_is_left_out_and_told() {
    let long = "x".repeat(254);
    let spec = json!({"dnsPolicy": "None", "dnsConfig": {
        "nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"], "searches": ["a", long, "b"]}});
    let (got, told) = of(&spec, &dns());
    assert_eq!(got, config(&["1.1.1.1", "2.2.2.2", "3.3.3.3"], &["a", "b"], &[]));
    let texts: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: \
             1.1.1.1 2.2.2.2 3.3.3.3",
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a b",
        ]
    );
    let wide: Vec<String> = (0..32).map(|n| format!("{n:03}{}", "y".repeat(97))).collect();
    let (got, told) = of(&json!({"dnsPolicy": "None", "dnsConfig": {"searches": wide}}), &dns());
    assert_eq!((got.searches.len(), told.len()), (20, 1), "20 of 100 characters fit into 2048");
}

#[test]
fn a_broken_file_of_the_node_is_an_error() {
    let dns = Dns { host: Some("nameserver\n".to_owned()), ..dns() };
    assert!(of_pod(downward::pod(&object(&json!({"dnsPolicy": "Default"}))), &dns).is_err());
}

#[test]
fn damaged_files_are_refused_or_read() {
    for text in oarlock_testkit::damaged_text(3, HOST, 2000) {
        let _ = parse(&text);
    }
}

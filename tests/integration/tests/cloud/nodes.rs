//! One cloud controller manager: its effects as a user sees them with kubectl.

use oarlock_testkit::Cluster;
use serde_json::{Value, json};

use super::provider::FakeCloud;
use super::{get, make_node, manager, until};

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

fn taints(node: &Value) -> Vec<&str> {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().map(|taint| taint["key"].as_str().unwrap()).collect()
}

#[test]
fn nodes_are_what_the_cloud_says_and_services_get_addresses() {
    let (cluster, cloud) = (Cluster::api_only(), FakeCloud::start());
    let kubectl = cluster.kubectl();
    ["n1", "n2", "n3"].into_iter().for_each(|name| make_node(&cluster, name));
    let _manager = manager(&cluster, &cloud, &[]);
    let node = until(&cluster, "node n1", |node| node["spec"]["providerID"] == "fake://n1");
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["node.kubernetes.io/instance-type"], "m1");
    assert_eq!(
        (&labels["topology.kubernetes.io/zone"], &labels["topology.kubernetes.io/region"]),
        (&json!("z1"), &json!("r1"))
    );
    assert!(!taints(&node).iter().any(|key| key.ends_with("uninitialized")), "{node}");
    until(&cluster, "node n1", |node| node["status"]["addresses"][0]["address"] == "198.51.100.7");
    for name in ["n2", "n3"] {
        until(&cluster, &format!("node {name}"), |node| node["spec"]["providerID"].is_string());
    }

    kubectl.ok("create service loadbalancer web --tcp=80:8080");
    kubectl.until("get service web", |said| said.contains("192.0.2.1"));
    assert_eq!(cloud.with(|cloud| cloud.effects.last().unwrap().content.clone()), "80 to n1,n2,n3");
    let service = get(&cluster, "service web");
    assert_eq!(service["metadata"]["finalizers"], json!(["service.kubernetes.io/load-balancer-cleanup"]));
    kubectl.until("events --for service/web", |said| said.contains("EnsuredLoadBalancer"));
    // Services of another load balancer class belong to another controller.
    let other = json!({"type": "LoadBalancer", "loadBalancerClass": "example.org/other", "ports": [{"port": 80}]});
    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}, "spec": other});
    let http = cluster.http(oarlock_testkit::http::Who::Admin);
    assert_eq!(http.json("POST", "/api/v1/namespaces/default/services", &other).code, 201);

    // Nodes leave and join the load balancers: deleted machines, and nodes with the label that excludes them.
    cloud.with(|cloud| {
        cloud.gone.insert("n2".to_owned());
        cloud.shut_down.insert("n3".to_owned());
    });
    until(&cluster, "node n3", |node| taints(node).contains(&SHUTDOWN));
    kubectl.until("get nodes -o name", |said| !said.contains("n2"));
    kubectl.ok("label node n3 node.kubernetes.io/exclude-from-external-load-balancers=");
    oarlock_testkit::wait::eventually("only n1 is led to", || {
        let last = cloud.with(|cloud| cloud.effects.last().unwrap().content.clone());
        if last == "80 to n1" { Ok(()) } else { Err(last) }
    });
    kubectl.until("events --for service/web", |said| said.contains("UpdatedLoadBalancer"));

    // The cloud's error text reaches the user as an Event.
    cloud.with(|cloud| cloud.refuses = Some("quota of addresses is used up".to_owned()));
    kubectl.ok("create service loadbalancer late --tcp=80:8080");
    kubectl.until("events --for service/late", |said| {
        said.contains("SyncLoadBalancerFailed") && said.contains("quota of addresses is used up")
    });
    cloud.with(|cloud| cloud.refuses = None);
    kubectl.until("get service late", |said| said.contains("192.0.2.2"));

    kubectl.ok("delete service late --timeout=60s");
    kubectl.ok(r#"patch service web -p {"spec":{"type":"ClusterIP"}}"#);
    until(&cluster, "service web", |service| service["metadata"]["finalizers"].is_null());
    kubectl.until("events --for service/web", |said| said.contains("DeletedLoadBalancer"));
    assert_eq!(get(&cluster, "service other")["status"]["loadBalancer"], json!({}));
    let left = cloud.with(|cloud| oarlock_check::effects::judge(&cloud.effects, &[].into()));
    assert_eq!(left, [""; 0]);
}

//! Runs the scheduler against stock Kubernetes over HTTPS, as a second scheduler that serves its own pods.
//!
//! `OARLOCK_LIVE=<admin kubeconfig>,<scheduler kubeconfig> cargo test -p oarlock-scheduler --test live -- --ignored --nocapture`
//!
//! The test creates nodes and pods, waits until all pods are bound, checks that no node is overfull and that Events were
//! written, and prints one machine-readable line. `OARLOCK_LIVE_NODES` and `OARLOCK_LIVE_PODS` set the numbers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test; the lint spares test functions only")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use oarlock_client::{Client, Endpoint, Https, ListOptions, PatchType, WriteOptions};
use oarlock_config::Kubeconfig;
use oarlock_meta::FieldSelector;
use oarlock_runtime::shutdown::{Graces, shutdown};
use oarlock_runtime::{Options, System, clock};
use oarlock_scheduler::{Config, Scheduler};
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::{Obj, resource};
use serde_json::{Value, json};

fn client(kubeconfig: &str) -> Client {
    let config = Kubeconfig::read(Path::new(kubeconfig)).unwrap().resolve(None).unwrap();
    let endpoint = Endpoint::new(&config, "oarlock-scheduler/test").unwrap();
    Client::new(Arc::new(Https::new(endpoint, Arc::new(oarlock_client::https::TokioSpawn)).unwrap()))
}

fn object(plural: &str, value: &Value) -> Obj {
    oarlock_client::decode(resource("", "v1", plural).unwrap().ty, &serde_json::to_vec(value).unwrap()).unwrap()
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

async fn make_nodes(admin: &Client, count: usize) {
    let nodes = resource("", "v1", "nodes").unwrap();
    for at in 0..count {
        let name = format!("live-{at}");
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "live": "yes"}}});
        admin.create(nodes, object("nodes", &node)).await.unwrap();
        let untaint = json!({"spec": {"taints": []}}).to_string();
        let sizes = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
        let status = json!({"status": {"capacity": sizes, "allocatable": sizes}}).to_string();
        for (subresource, patch) in [("", untaint), ("status", status)] {
            let patch = (PatchType::Merge, patch);
            admin.patch(nodes, subresource, ("", &name), patch, WriteOptions::default()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a running Kubernetes"]
async fn schedules_beside_stock_kubernetes() {
    let Ok(live) = std::env::var("OARLOCK_LIVE") else { panic!("OARLOCK_LIVE is not set") };
    let (admin, identity) = live.split_once(',').unwrap();
    let (admin, client) = (client(admin), client(identity));
    let (nodes, pods) = (number("OARLOCK_LIVE_NODES", 50), number("OARLOCK_LIVE_PODS", 1_000));
    let system = System::start(Options::default()).await.unwrap();
    let config = Config { names: vec!["oarlock".to_owned()], ..Config::default() };
    Scheduler::spawn(&system, client, config).await.unwrap();
    make_nodes(&admin, nodes).await;

    let kind = resource("", "v1", "pods").unwrap();
    let began = clock::now();
    let creates = futures::stream::iter(0..pods).map(|at| {
        let admin = admin.clone();
        async move {
            let pod = json!({
                "metadata": {"name": format!("live-{at}"), "namespace": "default", "labels": {"app": "live"}},
                "spec": {
                    "schedulerName": "oarlock",
                    "nodeSelector": {"live": "yes"},
                    "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}],
                },
            });
            admin.create(kind, object("pods", &pod)).await.unwrap();
        }
    });
    creates.buffer_unordered(32).collect::<Vec<()>>().await;
    let created = began.elapsed();
    let deadline = clock::after(Duration::from_secs(60));
    let waiting = || {
        let fields = FieldSelector::parse("spec.nodeName=,spec.schedulerName=oarlock").unwrap();
        admin.list(kind, "default", ListOptions { field_selector: fields, limit: 1, ..ListOptions::default() })
    };
    while !waiting().await.unwrap().items.is_empty() {
        assert!(!deadline.passed(), "some pods got no node");
        clock::sleep(Duration::from_millis(20)).await;
    }
    let bound = began.elapsed();

    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in admin.list(kind, "default", ListOptions::default()).await.unwrap().items {
        let pod = pod.obj().unwrap();
        let spec = pod.view::<Pod<'_>>().unwrap().spec();
        if spec.scheduler_name() == "oarlock" {
            *per_node.entry(spec.node_name().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(per_node.values().sum::<usize>(), pods);
    assert!(per_node.values().all(|count| *count <= 80), "a node has more than 8 cores' worth: {per_node:?}");
    let (least, most) = (per_node.values().min().unwrap(), per_node.values().max().unwrap());
    println!(
        "scheduler_live nodes={nodes} pods={pods} created_s={:.2} bound_s={:.2} bound_per_s={:.0} per_node={least}..{most}",
        created.as_secs_f64(),
        bound.as_secs_f64(),
        pods as f64 / bound.as_secs_f64(),
    );
    shutdown(&system, Graces::default()).await;
}

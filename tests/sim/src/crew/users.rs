//! Users with Deployments, and kubelets that delete the pods of their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oarlock_client::{Client, DeleteOptions, ListOptions, PatchType, Propagation, WriteOptions, decode};
use oarlock_runtime::{Rng, clock};
use oarlock_schema::{Obj, Resource, resource};
use serde_json::{Value, json};

use super::jobs::Ends;

pub(super) const NAMESPACE: &str = "default";
pub(super) const NODES: usize = 3;
/// Names of Deployments per user: few, so that many operations concern the same Deployment.
const NAMES: u64 = 6;
const MAX_REPLICAS: u64 = 5;
/// The mean pause of a user between two operations.
pub(super) const THINK_TIME: Duration = Duration::from_millis(900);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn kind(group: &str, plural: &str) -> &'static Resource {
    resource(group, "v1", plural).unwrap()
}

pub(super) fn object(kind: &'static Resource, json: Value) -> Obj {
    decode(kind.ty, json.to_string().as_bytes()).unwrap()
}

/// Repeats a request until it succeeds.
pub(super) async fn surely<T>(what: impl AsyncFn() -> Result<T, oarlock_meta::Status>) -> T {
    loop {
        match what().await {
            Ok(done) => return done,
            Err(status) if status.code >= 500 || status.is_conflict() => clock::sleep(RETRY_INTERVAL).await,
            Err(status) => panic!("{status}"),
        }
    }
}

/// Creates the objects that exist before the first member starts.
pub(super) async fn prepare(client: &Client) {
    let make = async |kind: &'static Resource, json: Value| {
        surely(async || match client.create(kind, object(kind, json.clone())).await {
            Err(status) if status.is_already_exists() => Ok(()),
            other => other.map(drop),
        })
        .await;
    };
    make(kind("", "namespaces"), json!({"metadata": {"name": NAMESPACE}})).await;
    make(kind("", "namespaces"), json!({"metadata": {"name": "kube-system"}})).await;
    let (nodes, room) = (kind("", "nodes"), json!({"cpu": "64", "memory": "256Gi", "pods": "110"}));
    for number in 0..NODES {
        let name = format!("node-{number}");
        let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
        let status = json!({"capacity": room, "allocatable": room, "conditions": ready});
        let node = json!({"metadata": {"name": name}, "status": status});
        make(nodes, node).await;
        // Admission taints a new node until its kubelet reports.
        let patch = (PatchType::Merge, json!({"spec": {"taints": null}}).to_string());
        surely(async || client.patch(nodes, "", ("", &name), patch.clone(), WriteOptions::default()).await).await;
    }
}

/// Deletes terminating pods, as kubelets would. Pods of Jobs end.
pub(super) async fn kubelets(client: Client, enough: Arc<AtomicBool>) {
    let (pods, mut ends) = (kind("", "pods"), Ends::default());
    while !enough.load(Ordering::Relaxed) {
        clock::sleep(RETRY_INTERVAL).await;
        let Ok(list) = client.list(pods, NAMESPACE, ListOptions::default()).await else { continue };
        for pod in list.items.iter().map(|pod| pod.obj().unwrap()) {
            if pod.meta().deletion_timestamp().is_none() {
                ends.end(&client, &pod).await;
                continue;
            }
            let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            // Another client may have deleted the pod first.
            let _done = client.delete(pods, NAMESPACE, pod.meta().name(), options).await;
        }
    }
}

/// Runs one user; returns the number of replicas last wanted, by name.
pub(super) async fn user(client: Client, mut rng: Rng, calls: u64, prefix: String) -> BTreeMap<String, u64> {
    let (deployments, mut wanted) = (kind("apps", "deployments"), BTreeMap::new());
    for _ in 0..calls {
        clock::sleep(rng.jitter(THINK_TIME, 90)).await;
        let name = format!("{prefix}{}", rng.below(NAMES));
        let replicas = rng.below(MAX_REPLICAS + 1);
        let (known, doomed) = (wanted.contains_key(&name), rng.chance(1, 4));
        if doomed {
            wanted.remove(&name);
        } else {
            wanted.insert(name.clone(), replicas);
        }
        if !known && !doomed {
            let labels = json!({"app": name});
            let spec = json!({"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]});
            let json = json!({
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            });
            // An earlier Deployment of the same name may still be terminating.
            surely(async || client.create(deployments, object(deployments, json.clone())).await).await;
        } else if doomed {
            let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            surely(async || match client.delete(deployments, NAMESPACE, &name, options.clone()).await {
                Err(status) if status.is_not_found() => Ok(()),
                other => other.map(drop),
            })
            .await;
        } else {
            let patch = (PatchType::Merge, json!({"spec": {"replicas": replicas}}).to_string());
            let key = (NAMESPACE, name.as_str());
            surely(async || client.patch(deployments, "", key, patch.clone(), WriteOptions::default()).await).await;
        }
    }
    wanted
}

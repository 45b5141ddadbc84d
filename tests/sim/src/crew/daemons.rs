//! Users' DaemonSets: created, updated and deleted, while nodes get and lose the label that the sets select.

use std::collections::{BTreeMap, BTreeSet};

use oarlock_client::{Client, DeleteOptions, ListOptions, PatchType, Propagation, WriteOptions};
use oarlock_runtime::{Rng, clock};
use serde_json::{Value, json};

use super::users::{NAMESPACE, NODES, THINK_TIME, kind, object, surely};

/// The label of the nodes that run daemons.
const LABEL: &str = "daemons";
const NAMES: u64 = 2;

/// The DaemonSets that are wanted, by name with the image of their pods, and the nodes that are to run a pod of each.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    images: BTreeMap<String, String>,
    nodes: BTreeSet<String>,
}

/// A user with DaemonSets, one of which starts new pods beside old ones. Returns what is wanted in the end.
pub(super) async fn user(client: Client, mut rng: Rng, calls: u64) -> Wanted {
    let (sets, nodes) = (kind("apps", "daemonsets"), kind("", "nodes"));
    let mut wanted = Wanted::default();
    for number in 0..calls {
        clock::sleep(rng.jitter(THINK_TIME * 2, 90)).await;
        if rng.chance(1, 3) {
            let node = format!("node-{}", rng.below(NODES as u64));
            let value = if wanted.nodes.remove(&node) { Value::Null } else { json!("yes") };
            if !value.is_null() {
                wanted.nodes.insert(node.clone());
            }
            let patch = (PatchType::Merge, json!({"metadata": {"labels": {LABEL: value}}}).to_string());
            surely(async || client.patch(nodes, "", ("", &node), patch.clone(), WriteOptions::default()).await).await;
            continue;
        }
        let surge = rng.below(NAMES);
        let (name, image) = (format!("daemon-{surge}"), format!("registry.k8s.io/pause:{number}"));
        let containers = json!([{"name": "c", "image": image}]);
        let is_known = wanted.images.contains_key(&name);
        if is_known && rng.chance(1, 4) {
            let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            surely(async || match client.delete(sets, NAMESPACE, &name, options.clone()).await {
                Err(status) if status.is_not_found() => Ok(()),
                other => other.map(drop),
            })
            .await;
            wanted.images.remove(&name);
            continue;
        }
        if is_known {
            let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            let (patch, key) = ((PatchType::Merge, patch.to_string()), (NAMESPACE, name.as_str()));
            surely(async || client.patch(sets, "", key, patch.clone(), WriteOptions::default()).await).await;
        } else {
            let labels = json!({"daemon": name});
            let pod = json!({"nodeSelector": {LABEL: "yes"}, "containers": containers});
            let rolling = json!({"maxSurge": surge, "maxUnavailable": 1 - surge});
            let spec = json!({
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            });
            let json = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
            surely(async || match client.create(sets, object(sets, json.clone())).await {
                Err(status) if status.is_already_exists() => Ok(()),
                other => other.map(drop),
            })
            .await;
        }
        wanted.images.insert(name, image);
    }
    wanted
}

/// Whether a pod is a DaemonSet's.
pub(super) fn is_daemon(pod: &Value) -> bool {
    !pod["metadata"]["labels"]["daemon"].is_null()
}

/// Returns the violations of DaemonSets: one bound pod of the last template on each node with the label, and none elsewhere.
pub(super) async fn judge(client: &Client, wanted: &Wanted, pods: &[Value]) -> Vec<String> {
    let list = match client.list(kind("apps", "daemonsets"), NAMESPACE, ListOptions::default()).await {
        Ok(list) => list,
        Err(status) => return vec![status.to_string()],
    };
    let sets: Vec<Value> = list.items.iter().map(|item| serde_json::from_slice(&item.bytes).unwrap()).collect();
    let mut wrong = Vec::new();
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
    for (name, image) in &wanted.images {
        let Some(set) = sets.iter().find(|set| set["metadata"]["name"] == name.as_str()) else {
            wrong.push(format!("DaemonSet {name} is missing"));
            continue;
        };
        let mine: Vec<&Value> = pods.iter().filter(|pod| owner(pod) == set["metadata"]["uid"]).collect();
        let mut on: Vec<&str> = mine.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or_default()).collect();
        on.sort_unstable();
        let is_updated = mine.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image.as_str());
        if !is_updated || !on.iter().copied().eq(wanted.nodes.iter().map(String::as_str)) {
            wrong.push(format!("DaemonSet {name} runs on {on:?}, not on {:?}; updated: {is_updated}", wanted.nodes));
        }
    }
    let stray = sets.iter().filter(|set| !wanted.images.contains_key(set["metadata"]["name"].as_str().unwrap()));
    wrong.extend(stray.map(|set| format!("DaemonSet {} is left over", set["metadata"]["name"])));
    let is_known = |pod: &&Value| sets.iter().any(|set| set["metadata"]["uid"] == owner(pod));
    let orphans = pods.iter().filter(|pod| is_daemon(pod)).filter(|pod| !is_known(pod));
    wrong.extend(orphans.map(|pod| format!("{} has lost its DaemonSet", pod["metadata"]["name"])));
    wrong
}

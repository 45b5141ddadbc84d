//! Answers about running pods: statistics, the list of running pods, and whether a container has a terminal.

mod node;
mod usage;

use oarlock_meta::Status;
use oarlock_schema::{Str, resource};
use serde_json::{Value, json};

use super::answer::Refusal;
use super::place::Place;
use crate::cri::SandboxState;
use crate::fleet::KubeletHandle;
use crate::manifests::HASH;

/// Largest list of pods in bytes.
const MAX_LIST: usize = 256 << 20;

async fn pods(node: &KubeletHandle) -> Result<Vec<Value>, Status> {
    let list = node.get("/pods").await?.bytes(MAX_LIST).await?;
    let mut list: Value = serde_json::from_slice(&list).map_err(Status::internal_error)?;
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

/// Returns `/stats/summary` (`k8s.io/kubelet/pkg/apis/stats/v1alpha1`): statistics of the node, and of started pods and their containers. Values that the
/// runtime does not measure are left out, as upstream does.
pub(super) async fn summary(node: &KubeletHandle) -> Result<Vec<u8>, Refusal> {
    let pods = pods(node).await?;
    let used = node.runtime().list_pod_sandbox_stats().await;
    let used = used.map_err(|error| Refusal::new(500, error.to_string()))?;
    let started = pods.iter().filter_map(|pod| {
        let start = pod.pointer("/status/startTime")?;
        let of = |field| pod.pointer(field).cloned().unwrap_or_default();
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
        let running = statuses.filter_map(|status| {
            let since = status.pointer("/state/running/startedAt")?;
            Some((status.get("name")?.as_str()?, json!({"name": status.get("name"), "startTime": since})))
        });
        let reference =
            json!({"name": of("/metadata/name"), "namespace": of("/metadata/namespace"), "uid": of("/metadata/uid")});
        // The runtime identifies a static pod by the hash of its manifest, not by its mirror's uid.
        let hash = pod.pointer("/metadata/annotations").and_then(|all| all.get(HASH)).and_then(Value::as_str);
        let uid = hash.or(pod.pointer("/metadata/uid")?.as_str()).unwrap_or_default();
        let own = usage::of_pod(&used, uid);
        let running = running.map(|(name, shown)| usage::of_container(own, name, shown)).collect::<Vec<_>>();
        Some(usage::pod(own, json!({"podRef": reference, "startTime": start, "containers": running})))
    });
    let mut of_node = json!({"nodeName": node.name()});
    if let (Some(machine), Some(into)) = (node.machine(), of_node.as_object_mut()) {
        // Without the runtime's answer only the image file system is left out.
        let images = node.runtime().image_fs().await.ok();
        let figures = node::figures(&machine.root_dir, images.as_deref());
        into.extend(figures.map_err(|error| Refusal::new(500, error.to_string()))?);
    }
    let summary = json!({"node": of_node, "pods": started.collect::<Vec<_>>()});
    Ok(summary.to_string().into_bytes())
}

/// Returns `/runningpods/`: the pods that the runtime has, with their names from the API.
pub(super) async fn running(node: &KubeletHandle) -> Result<Vec<u8>, Refusal> {
    let sandboxes = node.runtime().list_pod_sandbox(None).await;
    let sandboxes = sandboxes.map_err(|error| Refusal::new(500, error.to_string()))?;
    let ready: Vec<&Str> =
        sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).map(|sandbox| &sandbox.uid).collect();
    let pods = pods(node).await?;
    let running = pods.iter().filter_map(|pod| {
        let meta = pod.get("metadata")?;
        let uid = meta.get("uid")?.as_str()?;
        if !ready.iter().any(|known| known.as_str() == uid) {
            return None;
        }
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
        let containers =
            containers.map(|container| json!({"name": container.get("name"), "image": container.get("image")}));
        Some(json!({
            "metadata": {"name": meta.get("name"), "namespace": meta.get("namespace"), "uid": uid},
            "spec": {"containers": containers.collect::<Vec<_>>()},
            "status": {},
        }))
    });
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": running.collect::<Vec<_>>()});
    Ok(list.to_string().into_bytes())
}

/// Whether a container's spec gives it a terminal, which a client of attach cannot change after the start.
pub(super) async fn has_tty(node: &KubeletHandle, place: &Place) -> Result<bool, Refusal> {
    let pods = resource("", "v1", "pods").ok_or_else(|| Refusal::new(500, "the schema has no pods"))?;
    let pod = node.client().get(pods, &place.namespace, &place.pod).await?;
    let pod: Value = serde_json::from_slice(&pod.bytes).map_err(|error| Refusal::new(500, error.to_string()))?;
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let all = lists.iter().filter_map(|list| pod.get("spec")?.get(list)?.as_array()).flatten();
    let mut named = all.filter(|container| container.get("name").and_then(Value::as_str) == Some(&place.container));
    Ok(named.any(|container| container.get("tty") == Some(&Value::Bool(true))))
}

//! The writes of a preemption. All are for one incarnation, and what is gone already is as good as evicted.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use oarlock_client::{Client, DeleteOptions};
use oarlock_informer::Recorder;
use oarlock_meta::{Status, Time};
use oarlock_runtime::clock;
use oarlock_schema::{Resource, resource};
use serde_json::{Value, json};

use crate::model::PodInfo;
use crate::project::{DISRUPTION_TARGET, PREEMPTED};

use super::condition::write;
use super::tell::about;
use super::{namespace, text};

/// Victims of one preemption that are written about at once.
const AT_ONCE: usize = 16;

/// Sets or clears `status.nominatedNodeName`; returns the pod's revision then.
pub(super) async fn nominate(client: &Client, pod: &PodInfo, node: Option<&str>) -> Result<u64, Status> {
    let patch = json!({"metadata": {"uid": &*pod.uid}, "status": {"nominatedNodeName": node}});
    Ok(write(client, pod, bytes(&patch)?).await?.revision.get())
}

/// Takes the nominations of `pods` away. Where that fails they wait longer than they have to, and nothing is lost.
pub(super) async fn denominate(client: &Client, pods: &[Arc<PodInfo>]) {
    for pod in pods {
        if let Err(status) = nominate(client, pod, None).await {
            tracing::info!(pod = &*pod.name, %status, "nomination of a pod of lower priority not cleared");
        }
    }
}

/// Says of each victim why it has to go, deletes it and tells users.
pub(super) async fn evict(
    writers: (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    victims: &[Arc<PodInfo>],
) -> Result<(), Status> {
    let each: Vec<_> = victims.iter().map(|victim| leave(writers, pod, node, victim).boxed()).collect();
    stream::iter(each).buffer_unordered(AT_ONCE).try_collect().await
}

async fn leave(
    (client, recorder): (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    victim: &PodInfo,
) -> Result<(), Status> {
    let pods = resource("", "v1", "pods").ok_or_else(|| Status::internal_error("the schema has no pods"))?;
    if !victim.preempted
        && let Err(status) = write(client, victim, bytes(&condition(pod, victim))?).await
    {
        return if is_gone(client, pods, victim, &status).await { Ok(()) } else { Err(status) };
    }
    let options = DeleteOptions::uid(&*victim.uid);
    if let Err(status) = client.delete(pods, &namespace(victim), &victim.name, options).await {
        return if is_gone(client, pods, victim, &status).await { Ok(()) } else { Err(status) };
    }
    recorder.normal(&about(victim), "Preempted", format!("Preempted by pod {} on node {node}", pod.uid));
    Ok(())
}

/// Whether a write failed because this incarnation was gone: its name may be another's now.
async fn is_gone(client: &Client, pods: &'static Resource, victim: &PodInfo, why: &Status) -> bool {
    if !why.is_conflict() || why.is_stale_owner() {
        return why.is_not_found();
    }
    let found = client.find(pods, &namespace(victim), &victim.name).await;
    found.is_ok_and(|found| found.is_none_or(|found| *found.uid() != *victim.uid))
}

fn condition(pod: &PodInfo, victim: &PodInfo) -> Value {
    let message = format!("{}: preempting to accommodate a higher priority pod", text(pod.scheduler));
    json!({
        "metadata": {"uid": &*victim.uid},
        "status": {"conditions": [{
            "type": DISRUPTION_TARGET,
            "status": "True",
            "observedGeneration": victim.generation,
            "reason": PREEMPTED,
            "message": message,
            "lastTransitionTime": Time::from_unix(clock::wall().as_second()).to_string(),
        }]},
    })
}

fn bytes(patch: &Value) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(patch).map_err(|error| Status::internal_error(error.to_string()))
}

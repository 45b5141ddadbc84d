//! The writes of a preemption. Each write names a pod's uid; a victim that is already deleted counts as evicted. The caller bounds the time of all writes together.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use oarlock_client::{Client, DeleteOptions};
use oarlock_informer::{Project, Recorder};
use oarlock_meta::{Status, Time};
use oarlock_runtime::clock;
use oarlock_runtime::kind::Backoff;
use oarlock_schema::Resource;
use oarlock_seeded_bug::seeded_bug;
use serde_json::{Value, json};

use crate::model::PodInfo;
use crate::project::{DISRUPTION_TARGET, PREEMPTED, PodView};

use super::condition::{pods, write};
use super::names::{namespace, text};
use super::report::about;

/// Bound of victims of one preemption that are evicted concurrently.
const MAX_CONCURRENT: usize = 16;
/// Bound of attempts of a write that gets no answer, and of a nomination write that fails with a conflict.
pub(super) const MAX_TRIES: u32 = 5;
/// Pause after an attempt without an answer.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Pauses between the reads of a preemptor that cannot be read.
const READ_BACKOFF: Backoff = Backoff { first: RETRY_PAUSE, max: Duration::from_secs(5) };

/// Nominates a pod to a node; returns the pod's resulting revision.
pub(super) async fn nominate(client: &Client, pod: &PodInfo, node: &str) -> Result<u64, Status> {
    expect(client, pod, Some(node), |now| now == Some(node)).await
}

/// Sets or clears `status.nominatedNodeName` unless `is_done` accepts the pod's current value; returns the pod's resulting revision.
///
/// Each attempt names the pod's revision: an attempt that arrives after its answer was given up must not undo a later decision.
async fn expect(
    client: &Client,
    pod: &PodInfo,
    node: Option<&str>,
    is_done: impl Fn(Option<&str>) -> bool,
) -> Result<u64, Status> {
    let (mut version, mut tried) = (pod.version, 0);
    loop {
        let mut metadata = json!({"uid": &*pod.uid, "resourceVersion": version.to_string()});
        if seeded_bug!("nominated_at_any_revision") {
            metadata = json!({"uid": &*pod.uid});
        }
        let patch = json!({"metadata": metadata, "status": {"nominatedNodeName": node}});
        let status = match write(client, pod, bytes(&patch)?).await {
            Ok(written) => return Ok(written.revision.get()),
            Err(status) => status,
        };
        tried += 1;
        let lost = status.has_unknown_outcome();
        if tried == MAX_TRIES || status.is_stale_owner() || !(lost || status.is_conflict()) {
            return Err(status);
        }
        if lost {
            clock::sleep(RETRY_PAUSE).await;
        }
        let Some(found) = unplaced(client, pod).await? else { return Err(status) };
        if is_done(found.nominated.map(text).as_deref()) {
            return Ok(found.version);
        }
        version = found.version;
    }
}

/// Returns the API's state of a pod; `None` if the pod has a node or is deleted.
async fn unplaced(client: &Client, pod: &PodInfo) -> Result<Option<Arc<PodInfo>>, Status> {
    let Some(found) = client.find(pods()?, &namespace(pod), &pod.name).await? else { return Ok(None) };
    let found = PodView::project(&found.obj()?).info;
    Ok((found.uid == pod.uid && found.node.is_none()).then_some(found))
}

/// Clears the nominations of `others` to a node. If a write fails, the pod only waits longer than necessary.
pub(super) async fn denominate(client: &Client, others: &[Arc<PodInfo>], node: &str) {
    for pod in others {
        if let Err(status) = expect(client, pod, None, |now| now != Some(node)).await {
            tracing::info!(pod = &*pod.name, %status, "nomination of a pod of lower priority not cleared");
        }
    }
}

/// Writes each victim's `DisruptionTarget` condition, deletes the victim and records an Event.
pub(super) async fn evict(
    writers: (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    victims: &[Arc<PodInfo>],
) -> Result<(), Status> {
    let each: Vec<_> = victims.iter().map(|victim| leave(writers, pod, node, victim).boxed()).collect();
    stream::iter(each).buffer_unordered(MAX_CONCURRENT).try_collect().await
}

async fn leave(
    (client, recorder): (&Client, &Recorder),
    pod: &PodInfo,
    node: &str,
    victim: &PodInfo,
) -> Result<(), Status> {
    let (pods, namespace) = (pods()?, namespace(victim));
    let evicted = async {
        if !victim.preempted {
            until_answered(client, (pod, node), || mark(client, pods, pod, victim)).await?;
        }
        let delete = || client.delete(pods, &namespace, &victim.name, DeleteOptions::uid(&*victim.uid));
        until_answered(client, (pod, node), delete).await.map(drop)
    };
    if let Err(status) = evicted.await {
        return if is_gone(client, pods, victim, &status).await { Ok(()) } else { Err(status) };
    }
    recorder.normal(&about(victim), "Preempted", format!("Preempted by pod {} on node {node}", pod.uid));
    Ok(())
}

/// Repeats a write to a victim whose answer is lost, while the pod is nominated to the node. Without the repetition one lost answer would leave a victim
/// that is marked as a disruption target and continues to run, and a pod that waits for the other victims in vain.
async fn until_answered<T, W: Future<Output = Result<T, Status>>>(
    client: &Client,
    (pod, node): (&PodInfo, &str),
    write: impl Fn() -> W,
) -> Result<T, Status> {
    let mut tried = 0;
    loop {
        let status = match write().await {
            Ok(written) => return Ok(written),
            Err(status) => status,
        };
        tried += 1;
        if tried == MAX_TRIES || !status.has_unknown_outcome() {
            return Err(status);
        }
        clock::sleep(RETRY_PAUSE).await;
        if !is_nominated(client, pod, node).await && !seeded_bug!("evicted_for_nobody") {
            return Err(status);
        }
    }
}

/// Whether the API shows that a pod without a node is nominated to `node`. A failed read says nothing of the nomination, so the pod is read until an answer
/// comes; the deadline of the preemption ends the reads.
async fn is_nominated(client: &Client, pod: &PodInfo, node: &str) -> bool {
    let mut failures = 0;
    loop {
        match unplaced(client, pod).await {
            Ok(found) => return found.and_then(|found| found.nominated).is_some_and(|name| *text(name) == *node),
            Err(status) => tracing::info!(pod = &*pod.name, %status, "nomination of a preemptor not read"),
        }
        failures += 1;
        clock::sleep(READ_BACKOFF.pause(failures)).await;
    }
}

/// Whether a write failed because the pod with the victim's uid is deleted; another pod may have its name.
async fn is_gone(client: &Client, pods: &'static Resource, victim: &PodInfo, why: &Status) -> bool {
    if !why.is_conflict() || why.is_stale_owner() {
        return why.is_not_found();
    }
    let found = client.find(pods, &namespace(victim), &victim.name).await;
    found.is_ok_and(|found| found.is_none_or(|found| *found.uid() != *victim.uid))
}

/// Appends the `DisruptionTarget` condition to a victim's conditions.
async fn mark(client: &Client, pods: &'static Resource, pod: &PodInfo, victim: &PodInfo) -> Result<(), Status> {
    let found = client.get(pods, &namespace(victim), &victim.name).await?.obj()?;
    let said = found.at(&["status", "conditions"]).map_or(&[][..], oarlock_schema::Value::items);
    let kinds = said.iter().filter_map(|said| said.get("type")?.as_str());
    let order = kinds.filter(|kind| *kind != DISRUPTION_TARGET).chain([DISRUPTION_TARGET]);
    let order: Vec<Value> = order.map(|kind| json!({"type": kind})).collect();
    write(client, victim, bytes(&condition(pod, victim, order))?).await.map(drop)
}

fn condition(pod: &PodInfo, victim: &PodInfo, order: Vec<Value>) -> Value {
    let message = format!("{}: preempting to accommodate a higher priority pod", text(pod.scheduler));
    json!({
        "metadata": {"uid": &*victim.uid},
        "status": {"$setElementOrder/conditions": order, "conditions": [{
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

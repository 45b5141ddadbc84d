//! Writes the `PodScheduled` condition of a waiting pod.
//!
//! A write that arrives after the pod was bound must not mark the pod as unscheduled for good. Each write therefore names
//! the pod's revision, and if that revision is outdated, the pod is read again.

use std::sync::Arc;

use oarlock_client::{Client, Object, PatchType, WriteOptions};
use oarlock_informer::Project;
use oarlock_mesh::Claim;
use oarlock_meta::{Status, Time};
use oarlock_runtime::clock;
use oarlock_schema::{Resource, resource};
use oarlock_seeded_bug::seeded_bug;
use serde_json::{Value, json};

use crate::model::PodInfo;
use crate::project::PodView;

use super::names::namespace;

/// Bound of attempts of a write that fails with a conflict.
const MAX_TRIES: usize = 5;

/// A `PodScheduled` condition that is to be written.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// The pod in the state in which it was scheduled.
    pub(super) pod: Arc<PodInfo>,
    /// The claim under which the condition is written.
    pub(super) claim: Claim,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whether `status.nominatedNodeName` is to be cleared.
    pub(super) denominated: bool,
}

impl Condition {
    /// Returns the patch against the pod's current state; `None` if the pod already has this condition, is bound, or is another pod of the same name.
    pub(super) fn patch(&self, now: &PodView) -> Option<Vec<u8>> {
        let (pod, reason, message) = (&self.pod, self.reason, &self.message);
        if now.info.uid != pod.uid || now.info.node.is_some() {
            return None;
        }
        let since = match now.scheduled_condition.as_deref() {
            Some(written) if written.status == "False" => {
                let same =
                    written.reason == reason && written.message == *message && written.generation == pod.generation;
                if same && !self.denominated {
                    return None;
                }
                written.since.clone()
            }
            _ => String::new(),
        };
        // The API rejects a condition without `lastTransitionTime`.
        let today = || Time::from_unix(clock::wall().as_second()).to_string();
        let since = if since.is_empty() && !seeded_bug!("condition_without_time") { today() } else { since };
        let mut status = json!({"conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "observedGeneration": pod.generation,
            "reason": reason,
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": since,
        }]});
        if self.denominated
            && let Some(status) = status.as_object_mut()
        {
            status.insert("nominatedNodeName".to_owned(), Value::Null);
        }
        let (uid, version) = (&*pod.uid, now.info.version.to_string());
        let metadata = if seeded_bug!("told_of_any_revision") {
            json!({"uid": uid})
        } else {
            json!({"uid": uid, "resourceVersion": version})
        };
        serde_json::to_vec(&json!({"metadata": metadata, "status": status})).ok()
    }

    /// Writes `patch`; after a conflict, reads the pod and writes the patch against its current state.
    pub(super) async fn say(&self, client: &Client, mut patch: Vec<u8>) -> Result<(), Status> {
        for tried in 1.. {
            match write(client, &self.pod, patch).await {
                Err(status) if status.is_conflict() && !status.is_stale_owner() && tried < MAX_TRIES => {}
                result => return result.map(|_| ()),
            }
            let found = client.find(pods()?, &namespace(&self.pod), &self.pod.name).await?;
            let Some(found) = found else { break };
            let Some(next) = self.patch(&PodView::project(&found.obj()?)) else { break };
            patch = next;
        }
        Ok(())
    }
}

/// Patches a pod's status; the patch must name the pod's uid.
pub(super) async fn write(client: &Client, pod: &PodInfo, patch: Vec<u8>) -> Result<Object, Status> {
    let namespace = namespace(pod);
    let key = (&*namespace, &*pod.name);
    client.patch(pods()?, "status", key, (PatchType::Strategic, patch), WriteOptions::default()).await
}

/// Returns the schema's resource `pods`.
pub(super) fn pods() -> Result<&'static Resource, Status> {
    resource("", "v1", "pods").ok_or_else(|| Status::internal_error("the schema has no pods"))
}

//! The `PodScheduled` condition of a pod that waits, and its way to the server.
//!
//! A write that its pod's binding overtakes, wherever that was made, must not call the pod unscheduled for good: so each
//! names the revision that it speaks of, and where that is old, the pod is read again.

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

use super::namespace;

/// How often a write is tried that others come before.
const MAX_TRIES: usize = 5;

/// A condition to be written.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// The pod as it was looked at.
    pub(super) pod: Arc<PodInfo>,
    /// Under which it is written.
    pub(super) claim: Claim,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// It is not expected anywhere any more.
    pub(super) denominated: bool,
}

impl Condition {
    /// The patch that says it of the pod as it is now, unless that says it already, has a node, or is another.
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
        // A condition that never had a time gets one: the API takes none without.
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

    /// Writes `patch`; where others came before, what is then to be said.
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

/// Changes a pod's status; the patch names its uid.
pub(super) async fn write(client: &Client, pod: &PodInfo, patch: Vec<u8>) -> Result<Object, Status> {
    let namespace = namespace(pod);
    let key = (&*namespace, &*pod.name);
    client.patch(pods()?, "status", key, (PatchType::Strategic, patch), WriteOptions::default()).await
}

/// The resource.
pub(super) fn pods() -> Result<&'static Resource, Status> {
    resource("", "v1", "pods").ok_or_else(|| Status::internal_error("the schema has no pods"))
}

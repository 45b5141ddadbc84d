//! Removes the tracking finalizer from pods that no Job will count, because the Job is deleted or finished, or the pod has no controller. Such pods could
//! otherwise never be deleted.

use std::sync::Arc;

use oarlock_informer::{Cache, Index, Item, Key, Requeue};
use oarlock_meta::{Status, Uid};
use oarlock_runtime::Failure;
use serde_json::json;

use super::Jobs;
use super::snapshot::Pod;
use crate::project::{PodView, TRACKING};
use crate::write;

/// The name in the queue key that checks a namespace's pods without a controller. Job names contain no question mark.
const UNCONTROLLED_NAME: &str = "?nobody's";

/// Returns the queue key that checks a namespace's pods without a controller.
pub(super) fn key(namespace: &str) -> Key {
    Key::new(namespace, UNCONTROLLED_NAME)
}

/// Whether a pod has the tracking finalizer.
pub(super) fn carries(pod: &Item<PodView>) -> bool {
    pod.meta.finalizers.iter().any(|one| one == TRACKING)
}

/// Returns the index of pods with the tracking finalizer, by the queue key that checks them: the Job's or the namespace's.
pub(super) fn index(pods: &Arc<Cache<PodView>>) -> Index<PodView> {
    pods.index("pods tracked by Jobs", |pod, value| {
        let controller = pod.meta.controller();
        let job = controller.filter(|owner| owner.kind == "Job" && owner.api_version == "batch/v1");
        let key = match (controller, job) {
            (_, Some(job)) => Key::new(pod.meta.namespace(), job.name.clone()),
            (None, None) => key(pod.meta.namespace()),
            // Pods with this finalizer but a controller of another kind are left alone.
            (Some(_), None) => return,
        };
        if carries(pod) {
            value(&key.to_string());
        }
    })
}

impl Jobs {
    /// Removes the finalizer from the pods of a key, except the pods of the Job `counts`, which still counts them.
    pub(super) async fn orphans(&self, key: &Key, counts: Option<&Uid>) -> Result<Requeue, Failure> {
        let counted = |pod: &Pod| pod.meta.controller().map(|owner| &owner.uid) == counts && counts.is_some();
        let mut pods: Vec<Pod> = self.tracked.get(&key.to_string());
        pods.retain(|pod| !counted(pod));
        for answer in write::all(pods.iter().map(|pod| self.orphan(key, pod))).await {
            answer?;
        }
        Ok(Requeue::No)
    }

    async fn orphan(&self, key: &Key, pod: &Pod) -> Result<(), Status> {
        // Precondition on the revision: a pod that was adopted since must keep the finalizer.
        let patch = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": [TRACKING],
            "uid": pod.meta.uid.as_str(),
            "resourceVersion": pod.meta.revision.to_string(),
        }});
        match write::patch_metadata(&self.env.client, self.pod, &pod.meta, &patch).await {
            Ok(object) => {
                self.own.wrote(key, &self.pods, object.revision);
                Ok(())
            }
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

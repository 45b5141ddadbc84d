//! Finalizers of pods that no Job will count: it is gone or finished, or nobody controls the pod. They are taken off, or the pods could never go.

use std::sync::Arc;

use oarlock_informer::{Cache, Index, Item, Key, Requeue};
use oarlock_meta::{Status, Uid};
use oarlock_runtime::Failure;
use serde_json::json;

use super::Jobs;
use super::look::Pod;
use crate::project::{PodView, TRACKING};
use crate::write;

/// What the key of a namespace asks; names of Jobs have no question mark.
const NOBODYS: &str = "?nobody's";

/// The key under which a namespace's pods are looked at that nobody controls.
pub(super) fn key(namespace: &str) -> Key {
    Key::new(namespace, NOBODYS)
}

/// Whether a pod has the finalizer.
pub(super) fn carries(pod: &Item<PodView>) -> bool {
    pod.meta.finalizers.iter().any(|one| one == TRACKING)
}

/// Pods with the finalizer by the key under which they are looked at: that of the Job, or of their namespace.
pub(super) fn index(pods: &Arc<Cache<PodView>>) -> Index<PodView> {
    pods.index("pods tracked by Jobs", |pod, value| {
        let controller = pod.meta.controller();
        let job = controller.filter(|owner| owner.kind == "Job" && owner.api_version == "batch/v1");
        let key = match (controller, job) {
            (_, Some(job)) => Key::new(pod.meta.namespace(), job.name.clone()),
            (None, None) => key(pod.meta.namespace()),
            // Who else controls pods with this finalizer, and why, is not ours to know.
            (Some(_), None) => return,
        };
        if carries(pod) {
            value(&key.to_string());
        }
    })
}

impl Jobs {
    /// Takes the finalizer off the pods of a key, but for those of the Job that counts them.
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
        // It may have been adopted since it was seen: whoever did that counts on the finalizer.
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

//! The creation and deletion of a workload's pods, with upstream's Events about them (upstream `RealPodControl`).

use std::sync::Arc;

use oarlock_client::{DeleteOptions, Object};
use oarlock_informer::{Cache, Item, ObjMeta, OwnWrites};
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource};

use crate::harness::Env;
use crate::pod_create::PodCreates;
use crate::project::PodView;
use crate::write;

/// Creates and deletes pods for one workload, in whose name Events are sent and own writes recorded.
pub(crate) struct PodControl<'a> {
    /// The environment of the workload's controller.
    pub(crate) env: &'a Env,
    /// The workload.
    pub(crate) owner: (&'static Resource, &'a ObjMeta),
    /// The cache of pods.
    pub(crate) pods: &'a Arc<Cache<PodView>>,
    /// The resource of pods.
    pub(crate) resource: &'static Resource,
    /// The controller's own writes.
    pub(crate) own: &'a OwnWrites,
    /// The controller's creates of pods.
    pub(crate) creates: &'a PodCreates,
}

impl PodControl<'_> {
    /// Creates pods in growing batches; returns an answer for each request ([`PodCreates::create`]). No Event tells of a namespace that is being deleted: the workload
    /// is deleted with the namespace.
    pub(crate) async fn create(&self, pods: &[&Obj]) -> Vec<Result<Object, Status>> {
        let about = write::about(self.owner.0, self.owner.1);
        let answers = self.creates.create(self.owner.1, pods).await;
        for answer in &answers {
            match answer {
                Ok(object) => {
                    self.own.wrote(&self.owner.1.key, self.pods, object.revision);
                    self.env.recorder.normal(&about, "SuccessfulCreate", format!("Created pod: {}", object.name()));
                }
                Err(status) if is_of_terminating_namespace(status) => {}
                Err(status) => {
                    self.env.recorder.warning(&about, "FailedCreate", format!("Error creating: {}", status.message));
                }
            }
        }
        answers
    }

    /// Deletes one incarnation of a pod.
    ///
    /// # Errors
    /// The server's Status; no error if the incarnation does not exist any more.
    pub(crate) async fn delete(&self, pod: &Item<PodView>) -> Result<(), Status> {
        let about = write::about(self.owner.0, self.owner.1);
        let only = DeleteOptions::uid(pod.meta.uid.0.clone());
        match self.env.client.delete(self.resource, pod.meta.namespace(), pod.meta.name(), only).await {
            Ok(_) => {
                self.own.deleted(&self.owner.1.key, self.pods, pod.key().clone(), pod.meta.uid.clone());
                self.env.recorder.normal(&about, "SuccessfulDelete", format!("Deleted pod: {}", pod.meta.name()));
                Ok(())
            }
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => {
                self.env.recorder.warning(&about, "FailedDelete", format!("Error deleting: {}", status.message));
                Err(status)
            }
        }
    }
}

/// Returns the first failure of several writes. A refusal to create pods in a namespace that is being deleted is none.
pub(crate) fn outcome<T>(answers: Vec<Result<T, Status>>) -> Result<(), Status> {
    let mut failures = answers.into_iter().filter_map(Result::err);
    failures.find(|status| !is_of_terminating_namespace(status)).map_or(Ok(()), Err)
}

fn is_of_terminating_namespace(status: &Status) -> bool {
    status.cause("NamespaceTerminating").is_some()
}

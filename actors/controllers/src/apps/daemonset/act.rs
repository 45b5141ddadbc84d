//! The API writes of the daemonset controller, except those of revisions (`history.rs`).

use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_schema::Obj;

use super::actions::{New, Plan, Removal, Why};
use super::{DaemonSets, objects, status};
use crate::pod_control::{self, PodControl};
use crate::project::{DaemonSet, DaemonSetState};
use crate::write;

impl DaemonSets {
    /// Creates and deletes pods. Failed pods are deleted only if their successor was created, because it carries on the count of failures.
    pub(super) async fn perform(&self, set: &Item<DaemonSet>, hash: &str, plan: &Plan<'_>) -> Result<(), Status> {
        let control = PodControl {
            env: &self.env,
            owner: (self.sets.resource, &set.meta),
            pods: &self.pods,
            resource: self.pod,
            own: &self.sets.own,
            creates: &self.creates,
        };
        let (created, made) = self.create(set, hash, (&plan.create, &control)).await;
        let replaced =
            made.iter().flat_map(|new| new.replaces.iter().copied()).map(|pod| Removal { pod, why: Why::Failed });
        let removals: Vec<Removal<'_>> = plan.delete.iter().copied().chain(replaced).collect();
        removals.iter().for_each(|removal| self.announce(set, removal));
        let deleted = write::all(removals.iter().map(|removal| control.delete(removal.pod))).await;
        created.and(pod_control::outcome(deleted))
    }

    /// Creates pods in growing batches; returns the first failure, and the pods that were created.
    async fn create<'p, 'a>(
        &self,
        set: &Item<DaemonSet>,
        hash: &str,
        (create, control): (&'p [New<'a>], &PodControl<'_>),
    ) -> (Result<(), Status>, Vec<&'p New<'a>>) {
        if create.is_empty() {
            return (Ok(()), Vec::new());
        }
        let template = match write::current(&self.env.client, self.sets.resource, &set.meta).await {
            Ok(whole) => {
                let revision = (hash, set.value.template_count);
                objects::pod(self.pod, (self.sets.resource, &set.meta), &whole, revision)
            }
            Err(status) => Err(status),
        };
        let template = match template {
            Ok(template) => template,
            Err(status) => return (Err(status), Vec::new()),
        };
        let pods: Vec<Obj> =
            create.iter().map(|new| objects::pinned(&template, new.node, new.former_failures)).collect();
        let answers = control.create(&pods.iter().collect::<Vec<_>>()).await;
        let made = create.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(new, _)| new).collect();
        (pod_control::outcome(answers), made)
    }

    /// Sends the Event about a pod that has ended.
    fn announce(&self, set: &Item<DaemonSet>, removal: &Removal<'_>) {
        let (about, pod) = (write::about(self.sets.resource, &set.meta), removal.pod);
        let (namespace, name, node) = (pod.meta.namespace(), pod.meta.name(), pod.value.target_node());
        match removal.why {
            Why::Failed => {
                let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                self.env.recorder.warning(&about, "FailedDaemonPod", message);
            }
            Why::Succeeded => {
                let message =
                    format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
                self.env.recorder.normal(&about, "SucceededDaemonPod", message);
            }
            Why::Surplus | Why::Outdated => {}
        }
    }

    /// Writes the set's status if it changed.
    pub(super) async fn report(&self, set: &Item<DaemonSet>, state: DaemonSetState) -> Result<(), Status> {
        if !status::differs(set.value.status, state) {
            return Ok(());
        }
        let written = write::update_status(&self.env, self.sets.resource, &set.meta, |object| {
            for (name, count) in [
                ("observedGeneration", state.observed),
                ("desiredNumberScheduled", state.desired),
                ("currentNumberScheduled", state.current),
                ("numberMisscheduled", state.misscheduled),
                ("numberReady", state.ready),
                ("updatedNumberScheduled", state.updated),
                ("numberAvailable", state.available),
                ("numberUnavailable", state.unavailable),
            ] {
                object.set_at(&["status", name], count);
            }
        })
        .await;
        match written {
            Ok(object) => self.sets.wrote(set, object.revision),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }
}

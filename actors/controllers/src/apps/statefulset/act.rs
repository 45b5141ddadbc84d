//! The API writes of the statefulset controller, except those of claims (`claim_act.rs`).

use oarlock_client::DeleteOptions;
use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_workloads::revision;

use super::claims::ClaimWork;
use super::members::{Pod, pod_name};
use super::plan::{Action, Plan, PodRevision};
use super::snapshot::Names;
use super::{StatefulSets, objects, status};
use crate::project::{StatefulSet, StatefulSetState};
use crate::write;

/// A StatefulSet as the actions of one plan need the set.
pub(super) struct Target<'a> {
    pub(super) set: &'a Item<StatefulSet>,
    names: &'a Names,
    /// The whole set; `None` if no action builds an object.
    update: Option<Obj>,
    /// The whole set with the template of its current revision; `None` if no action needs this template.
    current: Option<Obj>,
}

impl Target<'_> {
    /// Returns the whole set with the template of a revision.
    pub(super) fn whole(&self, revision: PodRevision) -> Result<&Obj, Status> {
        let whole = match revision {
            PodRevision::Current => self.current.as_ref(),
            PodRevision::Update => self.update.as_ref(),
        };
        whole.ok_or_else(|| Status::internal_error("a template that was not planned"))
    }
}

impl StatefulSets {
    /// Takes the actions of a plan; returns the number of deleted pods of the current revision that are replaced, and the first failure.
    pub(super) async fn perform(&self, set: &Item<StatefulSet>, names: &Names, plan: &Plan) -> (i64, Option<Status>) {
        let target = match self.target(set, names, plan).await {
            Ok(target) => target,
            Err(status) => return (0, Some(status)),
        };
        let (mut replaced, target) = (0, &target);
        for stage in &plan.stages {
            let call = |at: usize| {
                let action = stage.get(at);
                async move {
                    match action {
                        Some(action) => self.take(target, action).await,
                        None => Ok(false),
                    }
                }
            };
            let mut failure = None;
            for answer in write::slow_start(stage.len(), call).await {
                match answer {
                    Ok(was_current) => replaced += i64::from(was_current),
                    Err(status) => {
                        failure.get_or_insert(status);
                    }
                }
            }
            if failure.is_some() {
                return (replaced, failure);
            }
        }
        (replaced, None)
    }

    /// Reads the templates that the actions of a plan build objects from.
    async fn target<'a>(
        &self,
        set: &'a Item<StatefulSet>,
        names: &'a Names,
        plan: &Plan,
    ) -> Result<Target<'a>, Status> {
        let builds = |action: &Action| match action {
            Action::Create { .. } => true,
            Action::Repair { storage, .. } => *storage,
            Action::Claims { claims, .. } => !claims.missing.is_empty(),
            Action::Delete { .. } => false,
        };
        let of_current = |action: &Action| matches!(action, Action::Create { revision: PodRevision::Current, .. });
        let any = |test: &dyn Fn(&Action) -> bool| plan.stages.iter().flatten().any(test);
        let (mut update, mut current) = (None, None);
        if any(&builds) {
            let whole = write::current(&self.env.client, self.sets.resource, &set.meta).await?;
            if any(&of_current) && names.current != names.update {
                let found = self.env.client.get(self.revision, set.meta.namespace(), &names.current).await?.obj()?;
                current = Some(revision::restored(&whole, objects::value(&found, &["data"])?)?);
            } else {
                current = Some(whole.clone());
            }
            update = Some(whole);
        }
        Ok(Target { set, names, update, current })
    }

    /// Takes one action; returns whether a pod of the current revision was deleted to be replaced.
    async fn take(&self, target: &Target<'_>, action: &Action) -> Result<bool, Status> {
        match action {
            Action::Create { ordinal, revision, claims } => self.create(target, (*ordinal, *revision), claims).await?,
            Action::Claims { ordinal, pod, claims } => self.keep_claims(target, (*ordinal, pod), claims).await?,
            Action::Repair { ordinal, pod, identity, storage, claims } => {
                let repaired = self.repair(target, (*ordinal, pod), (*identity, *storage), claims).await;
                self.record(target.set, "Update", pod.meta.name(), &repaired);
                repaired?;
            }
            Action::Delete { pod, replaces_current } => {
                let is_deleted = self.delete(target.set, pod).await?;
                return Ok(is_deleted && *replaces_current);
            }
        }
        Ok(false)
    }

    async fn create(
        &self,
        target: &Target<'_>,
        (ordinal, revision): (i64, PodRevision),
        claims: &ClaimWork,
    ) -> Result<(), Status> {
        let set = target.set;
        let name = pod_name(set.meta.name(), ordinal);
        let label = match revision {
            PodRevision::Current => &target.names.current,
            PodRevision::Update => &target.names.update,
        };
        let owner = (self.sets.resource, &set.meta);
        let pod = objects::pod(self.pod, owner, target.whole(revision)?, (ordinal, label))?;
        let created = async {
            self.create_claims(target, ordinal, claims).await?;
            self.own_claims(set, (&name, None), claims).await?;
            let object = self.env.client.create(self.pod, pod).await?;
            self.sets.own.wrote(set.key(), &self.pods, object.revision);
            Ok::<(), Status>(())
        };
        match created.await {
            // Pods cannot be created in a namespace that is being deleted; the set is deleted with the namespace.
            Err(status) if status.cause("NamespaceTerminating").is_some() => Ok(()),
            // The cache does not show the pod yet, or the name is another owner's.
            Err(status) if status.is_already_exists() => Err(status),
            created => {
                self.record(set, "Create", &name, &created);
                created
            }
        }
    }

    async fn repair(
        &self,
        target: &Target<'_>,
        (ordinal, pod): (i64, &Pod),
        (identity, storage): (bool, bool),
        claims: &ClaimWork,
    ) -> Result<(), Status> {
        self.create_claims(target, ordinal, claims).await?;
        self.own_claims(target.set, (pod.meta.name(), Some(&pod.meta)), claims).await?;
        if !identity && !storage {
            return Ok(());
        }
        let mut whole = write::current(&self.env.client, self.pod, &pod.meta).await?;
        if identity {
            objects::identify(&mut whole, pod.meta.name(), ordinal);
        }
        if storage {
            objects::store(&mut whole, &target.set.meta, target.whole(PodRevision::Update)?, ordinal)?;
        }
        let written = self.env.client.update(self.pod, whole).await?;
        self.sets.own.wrote(target.set.key(), &self.pods, written.revision);
        Ok(())
    }

    /// Deletes a pod; returns whether the pod was not deleted already.
    async fn delete(&self, set: &Item<StatefulSet>, pod: &Pod) -> Result<bool, Status> {
        let only = DeleteOptions::uid(pod.meta.uid.0.clone());
        match self.env.client.delete(self.pod, pod.meta.namespace(), pod.meta.name(), only).await {
            Ok(_) => {
                self.sets.own.deleted(set.key(), &self.pods, pod.key().clone(), pod.meta.uid.clone());
                self.record(set, "Delete", pod.meta.name(), &Ok(()));
                Ok(true)
            }
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(false),
            Err(status) => {
                let failed = Err(status);
                self.record(set, "Delete", pod.meta.name(), &failed);
                failed.map(|()| true)
            }
        }
    }

    /// Sends the Event about a written pod. Conflicts are not reported: the set is reconciled again.
    pub(super) fn record(&self, set: &Item<StatefulSet>, verb: &str, pod: &str, written: &Result<(), Status>) {
        let (about, name) = (write::about(self.sets.resource, &set.meta), set.meta.name());
        match written {
            Ok(()) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {name} successful");
                self.env.recorder.normal(&about, &format!("Successful{verb}"), message);
            }
            Err(status) if status.is_conflict() => {}
            Err(status) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {name} failed error: {}", status.message);
                self.env.recorder.warning(&about, &format!("Failed{verb}"), message);
            }
        }
    }

    /// Writes the set's status if it changed.
    pub(super) async fn report(&self, set: &Item<StatefulSet>, state: &StatefulSetState) -> Result<(), Status> {
        if !status::differs(&set.value.status, state) {
            return Ok(());
        }
        let written = write::update_status(&self.env, self.sets.resource, &set.meta, |object| {
            for (name, count) in [
                ("observedGeneration", state.observed),
                ("replicas", state.replicas),
                ("readyReplicas", state.ready),
                ("availableReplicas", state.available),
                ("currentReplicas", state.current),
                ("updatedReplicas", state.updated),
                ("collisionCount", state.collisions.unwrap_or(0)),
            ] {
                object.set_at(&["status", name], count);
            }
            object.set_at(&["status", "currentRevision"], state.current_revision.as_str());
            object.set_at(&["status", "updateRevision"], state.update_revision.as_str());
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

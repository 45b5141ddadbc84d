//! The API writes of the replicaset controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_client::{DeleteOptions, Object};
use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_schema::views::{View, apps_v1};
use oarlock_schema::{Obj, Value};

use super::ReplicaSets;
use super::plan::Plan;
use super::rank::Related;
use crate::project::{PodView, ReplicaSet, active};
use crate::{pod_template, write};

impl ReplicaSets {
    /// Counts, per node, the active pods of all ReplicaSets that have the same controller as this set.
    pub(super) fn related(&self, set: &Item<ReplicaSet>, mine: &[Arc<Item<PodView>>]) -> Related {
        let mut count: Related = BTreeMap::new();
        let mut add = |pods: &[Arc<Item<PodView>>]| {
            for pod in pods.iter().filter(|pod| active(pod) && !pod.value.node.is_empty()) {
                *count.entry(pod.value.node.clone()).or_insert(0) += 1;
            }
        };
        let Some(controller) = set.meta.controller() else {
            add(mine);
            return count;
        };
        for sibling in self.siblings.owned(controller.uid.as_str()) {
            add(&self.candidates.owned(sibling.meta.uid.as_str()));
        }
        count
    }

    /// Creates or deletes pods; returns the first failure, if any.
    pub(super) async fn manage(&self, set: &Item<ReplicaSet>, plan: &Plan) -> Option<Status> {
        let outcome = if plan.create > 0 { self.create(set, plan.create).await } else { self.delete(set, plan).await };
        outcome.err()
    }

    async fn create(&self, set: &Item<ReplicaSet>, count: usize) -> Result<(), Status> {
        let (client, about) = (&self.env.client, write::about(self.set, &set.meta));
        let whole = write::current(client, self.set, &set.meta).await?;
        let pod = self.pod_of(set, &whole)?;
        let mut failure = None;
        for answer in self.creates.create(&set.meta, &vec![&pod; count]).await {
            match answer {
                Ok(object) => self.created(set, &object),
                // Pods cannot be created in a namespace that is being deleted; the set is deleted with the namespace.
                Err(status) if status.cause("NamespaceTerminating").is_some() => {}
                Err(status) => {
                    self.env.recorder.warning(&about, "FailedCreate", format!("Error creating: {}", status.message));
                    failure.get_or_insert(status);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn created(&self, set: &Item<ReplicaSet>, object: &Object) {
        self.own.wrote(set.key(), &self.pods, object.revision);
        let message = format!("Created pod: {}", object.name());
        self.env.recorder.normal(&write::about(self.set, &set.meta), "SuccessfulCreate", message);
    }

    /// Returns the pod to create from a ReplicaSet's template, controlled by the set.
    fn pod_of(&self, set: &Item<ReplicaSet>, whole: &Obj) -> Result<Obj, Status> {
        let view: apps_v1::ReplicaSet<'_> =
            whole.view().ok_or_else(|| Status::internal_error("the answer is no ReplicaSet"))?;
        Ok(pod_template::pod(self.pod, view.spec().template(), (self.set, &set.meta)))
    }

    async fn delete(&self, set: &Item<ReplicaSet>, plan: &Plan) -> Result<(), Status> {
        let (client, about) = (&self.env.client, write::about(self.set, &set.meta));
        let answers = write::all(plan.delete.iter().map(|pod| async move {
            let only = DeleteOptions::uid(pod.meta.uid.0.clone());
            (pod, client.delete(self.pod, pod.meta.namespace(), pod.meta.name(), only).await)
        }))
        .await;
        let mut failure = None;
        for (pod, answer) in answers {
            match answer {
                Ok(_) => {
                    self.own.deleted(set.key(), &self.pods, pod.key().clone(), pod.meta.uid.clone());
                    let message = format!("Deleted pod: {}", pod.meta.name());
                    self.env.recorder.normal(&about, "SuccessfulDelete", message);
                }
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => {
                    self.env.recorder.warning(&about, "FailedDelete", format!("Error deleting: {}", status.message));
                    failure.get_or_insert(status);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes the ReplicaSet's status if it changed.
    pub(super) async fn report(&self, set: &Item<ReplicaSet>, plan: &Plan) -> Result<(), Status> {
        let status = &plan.status;
        if *status == set.value.status {
            return Ok(());
        }
        let written = write::update_status(&self.env, self.set, &set.meta, |object| {
            for (name, count) in [
                ("replicas", status.replicas),
                ("fullyLabeledReplicas", status.fully_labeled),
                ("readyReplicas", status.ready),
                ("availableReplicas", status.available),
                ("terminatingReplicas", status.terminating.unwrap_or(0)),
                ("observedGeneration", status.observed),
            ] {
                object.set_at(&["status", name], count);
            }
            let conditions = status.conditions.iter().map(|one| one.write(apps_v1::ReplicaSetCondition::TYPE));
            object.set_at(&["status", "conditions"], Value::from_iter(conditions));
        })
        .await;
        match written {
            Ok(object) => self.own.wrote(set.key(), &self.sets, object.revision),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }
}

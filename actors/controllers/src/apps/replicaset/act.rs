//! The API writes of the replicaset controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_informer::Item;
use oarlock_meta::Status;
use oarlock_schema::views::{View, apps_v1};
use oarlock_schema::{Obj, Value};

use super::ReplicaSets;
use super::plan::Plan;
use super::rank::Related;
use crate::pod_control::{self, PodControl};
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

    fn pod_control<'a>(&'a self, set: &'a Item<ReplicaSet>) -> PodControl<'a> {
        PodControl {
            env: &self.env,
            owner: (self.set, &set.meta),
            pods: &self.pods,
            resource: self.pod,
            own: &self.own,
            creates: &self.creates,
        }
    }

    async fn create(&self, set: &Item<ReplicaSet>, count: usize) -> Result<(), Status> {
        let whole = write::current(&self.env.client, self.set, &set.meta).await?;
        let pod = self.pod_of(set, &whole)?;
        pod_control::outcome(self.pod_control(set).create(&vec![&pod; count]).await)
    }

    /// Returns the pod to create from a ReplicaSet's template, controlled by the set.
    fn pod_of(&self, set: &Item<ReplicaSet>, whole: &Obj) -> Result<Obj, Status> {
        let view: apps_v1::ReplicaSet<'_> =
            whole.view().ok_or_else(|| Status::internal_error("the answer is no ReplicaSet"))?;
        Ok(pod_template::pod(self.pod, view.spec().template(), (self.set, &set.meta)))
    }

    async fn delete(&self, set: &Item<ReplicaSet>, plan: &Plan) -> Result<(), Status> {
        let control = self.pod_control(set);
        pod_control::outcome(write::all(plan.delete.iter().map(|pod| control.delete(pod))).await)
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

//! The API writes of the deployment controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_client::DeleteOptions;
use oarlock_informer::Item;
use oarlock_meta::{Status, Time};
use oarlock_schema::views::{View, apps_v1, meta_v1};
use oarlock_schema::{Map, Obj, Str, Value};

use super::plan::{Create, Plan};
use super::snapshot::Resize;
use super::{Deployments, annotations, status};
use crate::project::{Condition, Deployment, DeploymentState, HASH, ReplicaSet};
use crate::write;

const REASON: &str = "ScalingReplicaSet";
/// The reason of the Event when a ReplicaSet could not be created.
const REFUSED: &str = "ReplicaSetCreateError";

impl Deployments {
    /// Creates, changes and deletes ReplicaSets.
    pub(super) async fn perform(
        &self,
        deployment: &Item<Deployment>,
        sets: &[Arc<Item<ReplicaSet>>],
        plan: &Plan,
    ) -> Result<(), Status> {
        let named = |name: &Str| sets.iter().find(|set| set.meta.name() == name.as_str());
        if let Some(create) = &plan.create {
            self.create(deployment, create).await?;
        }
        for resize in &plan.resize {
            if let Some(set) = named(&resize.set) {
                self.resize(deployment, set, resize).await?;
            }
        }
        for set in plan.forget.iter().filter_map(named) {
            let only = DeleteOptions::uid(set.meta.uid.0.clone());
            match self.env.client.delete(self.set, set.meta.namespace(), set.meta.name(), only).await {
                Ok(_) => self.own.deleted(deployment.key(), &self.sets, set.key().clone(), set.meta.uid.clone()),
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    async fn create(&self, deployment: &Item<Deployment>, create: &Create) -> Result<(), Status> {
        let client = &self.env.client;
        let whole = write::current(client, self.deployment, &deployment.meta).await?;
        let object = match client.create(self.set, self.set_of(deployment, &whole, create)?).await {
            Ok(object) => object,
            Err(status) if status.is_already_exists() => return self.taken(deployment, create, status).await,
            Err(status) => return Err(status),
        };
        self.own.wrote(deployment.key(), &self.sets, object.revision);
        if create.replicas > 0 {
            let message = format!("Scaled up replica set {} from 0 to {}", create.name, create.replicas);
            self.env.recorder.normal(&write::about(self.deployment, &deployment.meta), REASON, message);
        }
        Ok(())
    }

    /// Handles a name conflict of a new ReplicaSet. The conflict is with the controller's own recent write, or with a set of another template; then the next
    /// name is tried.
    async fn taken(&self, deployment: &Item<Deployment>, create: &Create, status: Status) -> Result<(), Status> {
        let object = self.env.client.get(self.set, deployment.meta.namespace(), &create.name).await?;
        let there: Item<ReplicaSet> = Item::of(&object.obj()?, object.revision);
        let ours = there.meta.controller().is_some_and(|owner| owner.uid == deployment.meta.uid);
        if ours && there.value.template == deployment.value.template {
            self.own.wrote(deployment.key(), &self.sets, object.revision);
            return Ok(());
        }
        let collisions = deployment.value.status.collisions.unwrap_or(0) + 1;
        let written = write::update(&self.env.client, self.deployment, "status", &deployment.meta, |object| {
            object.set_at(&["status", "collisionCount"], collisions);
        })
        .await?;
        self.own.wrote(deployment.key(), &self.deployments, written.revision);
        Err(status)
    }

    /// Returns the ReplicaSet to create for a Deployment's current template.
    fn set_of(&self, deployment: &Item<Deployment>, whole: &Obj, create: &Create) -> Result<Obj, Status> {
        let no = |what: &str| Status::internal_error(format!("the answer has no {what}"));
        let view: apps_v1::Deployment<'_> = whole.view().ok_or_else(|| no("Deployment"))?;
        let mut template = view.spec().template().node().ok_or_else(|| no("template"))?.clone();
        template.set_at(&["metadata", "labels", HASH], create.hash.as_str());
        let selector = view.spec().selector().and_then(|selector| selector.node()).ok_or_else(|| no("selector"))?;
        let mut selector = selector.clone();
        selector.set_at(&["matchLabels", HASH], create.hash.as_str());
        let labels = template.at(&["metadata", "labels"]).cloned().unwrap_or_default();
        let mut set = Obj::new(self.set.ty);
        set.set_at(&["metadata", "name"], create.name.as_str());
        set.set_at(&["metadata", "namespace"], deployment.meta.namespace());
        set.set_at(&["metadata", "labels"], labels);
        let annotations: Map = create.annotations.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        set.set_at(&["metadata", "annotations"], annotations);
        let owner = write::owner_node(meta_v1::OwnerReference::TYPE, self.deployment, &deployment.meta);
        set.set_at(&["metadata", "ownerReferences"], Value::from_iter([owner]));
        set.set_at(&["spec", "replicas"], create.replicas);
        if deployment.value.min_ready > 0 {
            set.set_at(&["spec", "minReadySeconds"], deployment.value.min_ready);
        }
        set.set_at(&["spec", "selector"], selector);
        set.set_at(&["spec", "template"], template);
        Ok(set)
    }

    async fn resize(
        &self,
        deployment: &Item<Deployment>,
        set: &Item<ReplicaSet>,
        resize: &Resize,
    ) -> Result<(), Status> {
        let written = write::update(&self.env.client, self.set, "", &set.meta, |object| {
            object.set_at(&["spec", "replicas"], resize.to);
            if let Some(seconds) = resize.min_ready {
                object.set_at(&["spec", "minReadySeconds"], seconds);
            }
            annotate(object, &resize.annotations);
        })
        .await?;
        self.own.wrote(deployment.key(), &self.sets, written.revision);
        if resize.from != resize.to {
            let way = if resize.to > resize.from { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {} to {}", resize.set, resize.from, resize.to);
            self.env.recorder.normal(&write::about(self.deployment, &deployment.meta), REASON, message);
        }
        Ok(())
    }

    /// Writes the Deployment's status and revision if they changed.
    pub(super) async fn report(&self, deployment: &Item<Deployment>, plan: &Plan) -> Result<(), Status> {
        if plan.status == deployment.value.status && plan.revision.is_none() {
            return Ok(());
        }
        let written = write::update_status(&self.env, self.deployment, &deployment.meta, |object| {
            state(object, &plan.status);
            if let Some(revision) = &plan.revision {
                annotate(object, &BTreeMap::from([(annotations::REVISION.into(), revision.as_str().into())]));
            }
        })
        .await;
        match written {
            Ok(object) => self.own.wrote(deployment.key(), &self.deployments, object.revision),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Reports a refused new ReplicaSet by condition and Event (upstream `FailedRSCreateReason`).
    pub(super) async fn refused(
        &self,
        deployment: &Item<Deployment>,
        plan: &Plan,
        refusal: &Status,
        now: Time,
    ) -> Result<(), Status> {
        let Some(create) = &plan.create else { return Ok(()) };
        let retried = refusal.is_conflict() || refusal.is_already_exists() || refusal.has_unknown_outcome();
        if retried || refusal.cause("NamespaceTerminating").is_some() {
            return Ok(());
        }
        let message = format!("Failed to create new replica set {:?}: {}", create.name, refusal.message);
        let about = write::about(self.deployment, &deployment.meta);
        self.env.recorder.warning(&about, REFUSED, message.clone());
        if deployment.value.deadline.is_none() {
            return Ok(());
        }
        let mut status = plan.status.clone();
        status.conditions.clone_from(&deployment.value.status.conditions);
        let failed = Condition::new(status::PROGRESSING, "False", REFUSED, message, now);
        status::set(&mut status.conditions, failed);
        self.report(deployment, &Plan { status, ..Plan::default() }).await
    }
}

fn annotate(object: &mut Obj, annotations: &BTreeMap<Str, Str>) {
    for (key, value) in annotations {
        object.set_at(&["metadata", "annotations", key], value.clone());
    }
}

fn state(object: &mut Obj, status: &DeploymentState) {
    for (name, count) in [
        ("observedGeneration", status.observed),
        ("replicas", status.replicas),
        ("updatedReplicas", status.updated),
        ("readyReplicas", status.ready),
        ("availableReplicas", status.available),
        ("unavailableReplicas", status.unavailable),
        ("terminatingReplicas", status.terminating.unwrap_or(0)),
    ] {
        object.set_at(&["status", name], count);
    }
    let conditions = status.conditions.iter().map(|one| one.write(apps_v1::DeploymentCondition::TYPE));
    object.set_at(&["status", "conditions"], Value::from_iter(conditions));
}

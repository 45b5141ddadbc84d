//! deployment-controller: creates and scales the ReplicaSets of a Deployment, so that a rollout keeps the number of pods within the Deployment's bounds
//! (upstream `pkg/controller/deployment`).
//!
//! Each reconcile takes one step and writes the status from before the step; changes of the ReplicaSets trigger the next reconcile.

mod act;
mod annotations;
mod plan;
mod rolling;
mod scale;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Change, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::controller_ref::{Candidates, claim};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::project::{Deployment, PodView, ReplicaSet};

use crate::write;

pub(crate) const ROW: Row = Row {
    name: "deployment-controller",
    aliases: &["deployment"],
    account: "deployment-controller",
    component: "deployment-controller",
    workers: Concurrency::flag("concurrent-deployment-syncs", 16),
    spread: Spread::Key,
    why: "a deployment's replica sets are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

pub(crate) struct Deployments {
    env: Env,
    deployments: Arc<Cache<Deployment>>,
    sets: Arc<Cache<ReplicaSet>>,
    candidates: Candidates<ReplicaSet>,
    pods: Candidates<PodView>,
    own: Arc<OwnWrites>,
    deployment: &'static Resource,
    set: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let deployments = env.informers.all::<Deployment>().await?;
    let sets = env.informers.all::<ReplicaSet>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let (orphans, parents) = (deployments.clone(), sets.clone());
    let this = Deployments {
        env,
        deployments: deployments.clone(),
        sets: sets.clone(),
        candidates: Candidates::of(&sets),
        pods: Candidates::of(&pods),
        own: own.clone(),
        deployment: must(Deployment::RESOURCE)?,
        set: must(ReplicaSet::RESOURCE)?,
    };
    let controller = shell
        .controller(this)
        .reconciles(&deployments)
        .owns(&sets, "Deployment")
        .watches(&sets, move |change, enqueue| wanted_by(&orphans, change, enqueue))
        .watches(&pods, move |change, enqueue| pod_gone(&parents, change, enqueue))
        .own_writes(&own);
    shell.spawn(controller).await
}

/// Enqueues the Deployments that might adopt a ReplicaSet without a controller.
fn wanted_by(deployments: &Cache<Deployment>, change: &Change<ReplicaSet>, enqueue: &mut dyn FnMut(Key)) {
    let Some(set) = change.new.as_ref().filter(|set| set.meta.controller().is_none() && !set.meta.deleting()) else {
        return;
    };
    for deployment in deployments.in_namespace(set.meta.namespace()) {
        if deployment.value.selector.as_ref().is_some_and(|selector| selector.matches(&*set.meta.labels)) {
            enqueue(deployment.key().clone());
        }
    }
}

/// Enqueues the Deployment of an ended pod, because strategy Recreate waits for the last old pod.
fn pod_gone(sets: &Cache<ReplicaSet>, change: &Change<PodView>, enqueue: &mut dyn FnMut(Key)) {
    let Some(old) = change.old.as_ref() else { return };
    if change.new.as_ref().is_some_and(|new| new.meta.uid == old.meta.uid && !new.value.terminal()) {
        return;
    }
    let Some(owner) = old.meta.controller().filter(|owner| owner.kind == "ReplicaSet") else { return };
    let set = sets.named(old.meta.namespace(), &owner.name).filter(|set| set.meta.uid == owner.uid);
    if let Some(parent) =
        set.as_ref().and_then(|set| set.meta.controller()).filter(|parent| parent.kind == "Deployment")
    {
        enqueue(Key::new(old.meta.namespace(), parent.name.clone()));
    }
}

#[async_trait]
impl Reconcile for Deployments {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(deployment) = self.deployments.get(key) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        let candidates = self.candidates.get(&deployment.meta);
        let claims = claim(&deployment.meta, deployment.value.selector.as_ref(), candidates);
        if !claims.is_settled() {
            let (client, owner) = (&self.env.client, (self.deployment, &deployment.meta));
            claims.settle(client, owner, self.set, |at| self.own.wrote(key, &self.sets, at)).await?;
            return Ok(Requeue::After(Duration::ZERO));
        }
        let (mine, now) = (claims.mine, write::now());
        let running = |set: &str| self.pods.owned(set).iter().any(|pod| !pod.value.terminal());
        let plan = plan::plan(&deployment, &mine, &running, now);
        let failure = self.perform(&deployment, &mine, &plan).await.err();
        if let Some(status) = failure {
            self.refused(&deployment, &plan, &status, now).await?;
            return Err(status.into());
        }
        self.report(&deployment, &plan).await?;
        Ok(plan.again.map_or(Requeue::No, Requeue::After))
    }
}

//! replicaset-controller: creates and deletes pods until each ReplicaSet has as many as it wants (upstream `pkg/controller/replicaset`).

mod act;
mod plan;
mod rank;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::controller_ref::{Candidates, claim, enqueue_adopters};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::pod_create::PodCreates;
use crate::project::{PodView, ReplicaSet};

use crate::write;

pub(crate) const ROW: Row = Row {
    name: "replicaset-controller",
    aliases: &["replicaset"],
    account: "replicaset-controller",
    component: "replicaset-controller",
    workers: Concurrency::flag("concurrent-replicaset-syncs", 16),
    spread: Spread::Key,
    why: "a replica set's pods are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

pub(crate) struct ReplicaSets {
    env: Env,
    sets: Arc<Cache<ReplicaSet>>,
    pods: Arc<Cache<PodView>>,
    candidates: Candidates<PodView>,
    siblings: Candidates<ReplicaSet>,
    creates: PodCreates,
    own: Arc<OwnWrites>,
    set: &'static Resource,
    pod: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let sets = env.informers.all::<ReplicaSet>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let own = Arc::new(OwnWrites::default());
    let (candidates, siblings) = (Candidates::of(&pods), Candidates::of(&sets));
    let (set, pod) = (must(ReplicaSet::RESOURCE)?, must(PodView::RESOURCE)?);
    let creates = PodCreates::new(&env.client, pod, &pods, &sets);
    let shell = env.shell();
    let adopters = sets.clone();
    let (all_sets, all_pods, writes) = (sets.clone(), pods.clone(), own.clone());
    let this =
        ReplicaSets { env, sets: all_sets, pods: all_pods, candidates, siblings, creates, own: writes, set, pod };
    let controller = shell
        .controller(this)
        .reconciles(&sets)
        .owns(&pods, "ReplicaSet")
        .watches(&pods, move |change, enqueue| {
            enqueue_adopters(&adopters, |set| set.selector.as_ref(), change, enqueue);
        })
        .own_writes(&own);
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for ReplicaSets {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(set) = self.sets.get(key) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        let claims = claim(&set.meta, set.value.selector.as_ref(), self.candidates.get(&set.meta));
        if !claims.is_settled() {
            let (client, owner) = (&self.env.client, (self.set, &set.meta));
            claims.settle(client, owner, self.pod, |at| self.own.wrote(key, &self.pods, at)).await?;
            // The key is reconciled again when the cache shows the pods' new owners.
            return Ok(Requeue::After(Duration::ZERO));
        }
        let (mine, now) = (claims.mine, write::now());
        let mut plan = plan::plan(&set, &mine, now, || self.related(&set, &mine));
        let failure = self.manage(&set, &plan).await;
        plan.fail(&set.value, failure.as_ref(), now);
        self.report(&set, &plan).await?;
        match failure {
            Some(status) => Err(status.into()),
            None => Ok(plan.again.map_or(Requeue::No, Requeue::After)),
        }
    }
}

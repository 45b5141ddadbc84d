//! daemonset-controller: runs one pod of a DaemonSet on each node that is to have one (upstream `pkg/controller/daemon`).
//!
//! A reconcile finds the revision of the set's template (`history.rs`), takes a snapshot of nodes and pods (`snapshot.rs`), plans (`plan.rs`, `roll.rs`),
//! takes the planned actions (`act.rs`), and writes the status.
//!
//! A creation whose answer is lost is repeated under the same name (`pod_create.rs`). If a node has two pods nevertheless, because another process created one of
//! them, the plan keeps the pod that is bound, or the older one, and deletes the other (`plan.rs`).

mod act;
mod actions;
mod backoff;
mod history;
mod objects;
mod placement;
mod plan;
mod pods;
mod roll;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Item, Key, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::controller_ref::{Candidates, claim, enqueue_adopters};
use crate::error::Error;
use crate::harness::{Concurrency, Env, Reconciled, Row, Spread, must};
use crate::pod_create::PodCreates;
use crate::project::{ControllerRevision, DaemonSet, NodeView, PodView};
use crate::write;

use snapshot::Snapshot;

pub(crate) const ROW: Row = Row {
    name: "daemonset-controller",
    aliases: &["daemonset"],
    account: "daemon-set-controller",
    component: "daemonset-controller",
    workers: Concurrency::flag("concurrent-daemonset-syncs", 8),
    spread: Spread::Key,
    why: "a daemon set's pods are decided on its own",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

struct DaemonSets {
    env: Env,
    sets: Reconciled<DaemonSet>,
    pods: Arc<Cache<PodView>>,
    nodes: Arc<Cache<NodeView>>,
    revisions: Arc<Cache<ControllerRevision>>,
    pods_of: Candidates<PodView>,
    revisions_of: Candidates<ControllerRevision>,
    creates: PodCreates,
    pod: &'static Resource,
    revision: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let sets = Reconciled::<DaemonSet>::open(&env).await?;
    let pods = env.informers.all::<PodView>().await?;
    let nodes = env.informers.all::<NodeView>().await?;
    let revisions = env.informers.all::<ControllerRevision>().await?;
    let shell = env.shell();
    let pod = must(PodView::RESOURCE)?;
    let this = DaemonSets {
        creates: PodCreates::new(&env.client, pod, &pods, &sets.cache),
        env,
        sets: sets.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        revisions: revisions.clone(),
        pods_of: Candidates::of(&pods),
        revisions_of: Candidates::of(&revisions),
        pod,
        revision: must(ControllerRevision::RESOURCE)?,
    };
    let (for_pods, for_revisions, for_nodes) = (sets.cache.clone(), sets.cache.clone(), sets.cache.clone());
    let controller = sets
        .controller(&shell, this)
        .owns(&pods, "DaemonSet")
        .watches(&pods, move |change, enqueue| {
            enqueue_adopters(&for_pods, |set| set.selector.as_ref(), change, enqueue);
        })
        .watches(&revisions, move |change, enqueue| {
            history::enqueue_owner(change, enqueue);
            enqueue_adopters(&for_revisions, |set| set.selector.as_ref(), change, enqueue);
        })
        .watches(&nodes, move |change, enqueue| placement::enqueue_concerned(&for_nodes, change, enqueue));
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for DaemonSets {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(set) = self.sets.get(key) else { return Ok(Requeue::No) };
        let Some(selector) = &set.value.selector else { return Ok(Requeue::No) };
        if selector.is_empty() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.env.recorder.warning(&write::about(self.sets.resource, &set.meta), "SelectingAll", message);
            return Ok(Requeue::No);
        }
        // The garbage collector may have deleted some pods and revisions of the set already, so that its status cannot be computed any more.
        if set.meta.deleting() {
            return Ok(Requeue::No);
        }
        let pods = claim(&set.meta, Some(selector), self.pods_of.get(&set.meta));
        let revisions = claim(&set.meta, Some(selector), self.revisions_of.get(&set.meta));
        if !pods.is_settled() || !revisions.is_settled() {
            let (client, owner) = (&self.env.client, (self.sets.resource, &set.meta));
            pods.settle(client, owner, self.pod, |at| self.sets.own.wrote(key, &self.pods, at)).await?;
            revisions.settle(client, owner, self.revision, |at| self.sets.own.wrote(key, &self.revisions, at)).await?;
            // The key is reconciled again when the caches show the new owners.
            return Ok(Requeue::After(Duration::ZERO));
        }
        self.sync(&set, &pods.mine, &revisions.mine).await
    }
}

impl DaemonSets {
    async fn sync(
        &self,
        set: &Item<DaemonSet>,
        pods: &[pods::Pod],
        revisions: &[history::Cached],
    ) -> Result<Requeue, Failure> {
        let Some(current) = self.current_revision(set, pods, revisions).await? else {
            // The key is reconciled again when the caches show the repaired history.
            return Ok(Requeue::After(Duration::ZERO));
        };
        let nodes = self.nodes.list();
        let snapshot = Snapshot::of(set, &current.hash, (&nodes, pods), write::now());
        let plan = plan::plan(&snapshot);
        let mut outcome = self.perform(set, &current.hash, &plan).await;
        if outcome.is_ok() {
            outcome = self.trim_history(set, &current, pods, revisions).await;
        }
        let reported = self.report(set, status::count(&snapshot)).await;
        outcome.and(reported)?;
        Ok(plan.again.map_or(Requeue::No, Requeue::After))
    }
}

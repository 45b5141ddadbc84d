//! taint-eviction-controller: pods leave nodes whose NoExecute taints they do not tolerate, or not any longer (upstream
//! `pkg/controller/tainteviction`).

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::DeleteOptions;
use oarlock_informer::{Cache, Item, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_meta::Status;
use oarlock_runtime::Failure;
use oarlock_schema::Resource;

use crate::env::{Env, must};
use crate::node_lifecycle::by_node;
use crate::project::{NodeView, PodView, Taint};
use crate::start::Error;
use crate::table::{Placement, Row};
use crate::write;

pub(crate) const ROW: Row = Row {
    name: "taint-eviction-controller",
    account: "node-controller",
    component: "taint-eviction-controller",
    watches: &["nodes", "pods"],
    workers: 8,
    placement: Placement::Key,
    why: "each pod is decided on its own; who may be emptied was decided with the taints",
    start: |env| start(env).boxed(),
};

struct Eviction {
    env: Env,
    nodes: Arc<Cache<NodeView>>,
    pods: Arc<Cache<PodView>>,
    own: Arc<OwnWrites>,
    pod: &'static Resource,
}

fn expelling(node: &Item<NodeView>) -> impl Iterator<Item = &Taint> {
    node.value.taints.iter().filter(|taint| taint.effect == "NoExecute")
}

async fn start(env: Env) -> Result<(), Error> {
    let nodes = env.informers.all::<NodeView>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let own = Arc::new(OwnWrites::default());
    let (shell, system, name) = (env.shell(), env.system.clone(), env.row.name);
    let pod = must(PodView::RESOURCE)?;
    let this = Eviction { env, nodes: nodes.clone(), pods: pods.clone(), own: own.clone(), pod };
    let (of_node, tainted) = (by_node(&pods), nodes.clone());
    let controller = shell
        .controller(this)
        .watches(&nodes, move |change, enqueue| {
            let before: Vec<&Taint> = change.old.iter().flat_map(|node| expelling(node)).collect();
            let after: Vec<&Taint> = change.new.iter().flat_map(|node| expelling(node)).collect();
            if before != after {
                of_node.get(&change.key.name).iter().for_each(|pod| enqueue(pod.key().clone()));
            }
        })
        .watches(&pods, move |change, enqueue| {
            let Some(pod) = change.new.as_ref().filter(|pod| !pod.value.node.is_empty()) else { return };
            if tainted.named("", &pod.value.node).is_some_and(|node| expelling(&node).next().is_some()) {
                enqueue(change.key.clone());
            }
        })
        .own_writes(&own);
    controller.spawn(&system).await.map(drop).map_err(|source| Error::Spawn { name, source })
}

#[async_trait]
impl Reconcile for Eviction {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(pod) = self.pods.get(key) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        if pod.meta.deleting() || pod.value.node.is_empty() {
            return Ok(Requeue::No);
        }
        let Some(node) = self.nodes.named("", &pod.value.node) else { return Ok(Requeue::No) };
        let now = write::now();
        match plan::leaves(&pod.value, expelling(&node), now) {
            None => Ok(Requeue::No),
            Some(at) if at > now => {
                let seconds = u64::try_from(at.unix().saturating_sub(now.unix())).unwrap_or(0);
                Ok(Requeue::After(Duration::from_secs(seconds)))
            }
            Some(_) => {
                self.evict(&pod).await?;
                Ok(Requeue::No)
            }
        }
    }
}

impl Eviction {
    async fn evict(&self, pod: &Item<PodView>) -> Result<(), Status> {
        let message = format!("Marking for deletion Pod {}/{}", pod.meta.namespace(), pod.meta.name());
        self.env.recorder.normal(&write::about(self.pod, &pod.meta), "TaintManagerEviction", message);
        let why = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        write::disrupted(&self.env.client, self.pod, &pod.meta, why, false).await?;
        let only = DeleteOptions::uid(pod.meta.uid.0.clone());
        match self.env.client.delete(self.pod, pod.meta.namespace(), pod.meta.name(), only).await {
            Ok(_) => {
                self.own.deleted(pod.key(), &self.pods, pod.key().clone(), pod.meta.uid.clone());
                Ok(())
            }
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

//! taint-eviction-controller: deletes pods from nodes with NoExecute taints that the pods do not tolerate, or not any longer (upstream
//! `pkg/controller/tainteviction`).

mod clocks;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::DeleteOptions;
use oarlock_informer::{Cache, Item, Key, ObjectRef, OwnWrites, Project, Reconcile, Requeue};
use oarlock_meta::Status;
use oarlock_runtime::{Failure, clock};
use oarlock_schema::Resource;

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::nodes::pods_by_node::pods_by_node;
use crate::project::{NodeView, PodView, Taint};

use crate::write;
use clocks::Clocks;
use plan::Fate;

pub(crate) const ROW: Row = Row {
    name: "taint-eviction-controller",
    aliases: &[],
    account: "node-controller",
    component: "taint-eviction-controller",
    workers: Concurrency::fixed(8),
    spread: Spread::Key,
    why: "each pod is decided on its own; who may be emptied was decided with the taints",
    on_by_default: true,
    gate: Some("SeparateTaintEvictionController"),
    needs: &[],
    start: |env| start(env).boxed(),
};

struct Eviction {
    env: Env,
    nodes: Arc<Cache<NodeView>>,
    pods: Arc<Cache<PodView>>,
    own: Arc<OwnWrites>,
    clocks: Arc<Clocks>,
    pod: &'static Resource,
}

fn expelling(node: &Item<NodeView>) -> impl Iterator<Item = &Taint> {
    node.value.taints.iter().filter(|taint| taint.effect == "NoExecute")
}

async fn start(env: Env) -> Result<(), Error> {
    let nodes = env.informers.all::<NodeView>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let pod = must(PodView::RESOURCE)?;
    let clocks = Arc::new(Clocks::default());
    let this =
        Eviction { env, nodes: nodes.clone(), pods: pods.clone(), own: own.clone(), clocks: clocks.clone(), pod };
    let (of_node, tainted, seen) = (pods_by_node(&pods), nodes.clone(), clocks.clone());
    let controller = shell
        .controller(this)
        .watches(&nodes, move |change, enqueue| {
            let before: Vec<&Taint> = change.old.iter().flat_map(|node| expelling(node)).collect();
            let after: Vec<&Taint> = change.new.iter().flat_map(|node| expelling(node)).collect();
            seen.node(&change.key.name, after.iter().copied(), clock::now());
            if before != after {
                of_node.get(&change.key.name).iter().for_each(|pod| enqueue(pod.key().clone()));
            }
        })
        .watches(&pods, move |change, enqueue| {
            let node = change.new.as_ref().and_then(|pod| tainted.named("", &pod.value.node));
            let concerned = node.is_some_and(|node| expelling(&node).next().is_some());
            if concerned || clocks.knows(&change.key) {
                enqueue(change.key.clone());
            }
        })
        .own_writes(&own);
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for Eviction {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let pod = self.pods.get(key);
        let here = pod.as_ref().filter(|pod| !pod.meta.deleting() && !pod.value.node.is_empty());
        let Some((pod, node)) = here.and_then(|pod| Some((pod, self.nodes.named("", &pod.value.node)?))) else {
            if self.clocks.forget(key) {
                self.cancelled(key, pod.as_deref());
            }
            if pod.is_none() {
                self.own.forget(key);
            }
            return Ok(Requeue::No);
        };
        let (now, wall) = (clock::now(), write::now());
        let under = |taint| (taint, self.clocks.under(pod, taint, now, wall));
        let fate = plan::fate(&pod.value, expelling(&node).map(under));
        match fate {
            Fate::Stays => {
                let tainted = expelling(&node).next().is_some();
                let waited = if tainted { self.clocks.cancel(key) } else { self.clocks.forget(key) };
                if waited {
                    self.cancelled(key, Some(pod));
                }
                Ok(Requeue::No)
            }
            Fate::Waits(left) => {
                self.clocks.schedule(pod, now);
                Ok(Requeue::After(left))
            }
            Fate::TimeIsUp | Fate::Goes => {
                // As upstream, the Event about a cancelled scheduled deletion is sent when the pod is deleted before the scheduled time, but not at that time.
                if self.clocks.cancel(key) && fate == Fate::Goes {
                    self.cancelled(key, Some(pod));
                }
                self.evict(pod).await?;
                Ok(Requeue::No)
            }
        }
    }
}

impl Eviction {
    /// Sends the Event that a scheduled deletion of a pod is cancelled, or that the pod is deleted already.
    fn cancelled(&self, key: &Key, pod: Option<&Item<PodView>>) {
        let about = match pod {
            Some(pod) => write::about(self.pod, &pod.meta),
            None => ObjectRef {
                api_version: self.pod.group_version().into(),
                kind: self.pod.kind.into(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                ..ObjectRef::default()
            },
        };
        let message = format!("Cancelling deletion of Pod {}/{}", key.namespace, key.name);
        self.env.recorder.normal(&about, "TaintManagerEviction", message);
    }

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

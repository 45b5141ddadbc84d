//! pod-garbage-collector-controller: deletes pods that no kubelet or controller will delete (upstream `pkg/controller/podgc`): pods of deleted nodes, pods
//! being deleted that never had a node, and ended pods beyond a threshold.

mod plan;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_client::DeleteOptions;
use oarlock_informer::{Cache, Change, Index, Item, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_meta::Status;
use oarlock_runtime::{Failure, Instant, clock};
use oarlock_schema::{Resource, Str};
use parking_lot::Mutex;

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::nodes::pods_by_node::pods_by_node;
use crate::project::{NodeView, PodView};

use crate::write;
pub use settings::PodGarbageCollectorSettings;

pub(crate) const ROW: Row = Row {
    name: "pod-garbage-collector-controller",
    aliases: &["podgc"],
    account: "pod-garbage-collector",
    component: "pod-garbage-collector-controller",
    workers: Concurrency::fixed(4),
    spread: Spread::Singleton,
    why: "it counts ended pods over the whole cluster",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The time without a Node object after which a node counts as deleted (upstream `quarantineTime`).
const NODE_QUARANTINE: Duration = Duration::from_secs(40);

/// The queue key that checks the threshold of ended pods. Has no namespace, so it differs from the keys of pods.
const ENDED_PODS_KEY: &str = "?ended";

struct Collector {
    env: Env,
    nodes: Arc<Cache<NodeView>>,
    pods: Arc<Cache<PodView>>,
    of_node: Index<PodView>,
    ended: Index<PodView>,
    missing: Mutex<BTreeMap<Str, Instant>>,
    /// Number of ended pods that are kept; `None` keeps all.
    threshold: Option<usize>,
    own: Arc<OwnWrites>,
    pod: &'static Resource,
    node: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let nodes = env.informers.all::<NodeView>().await?;
    let pods = env.informers.all::<PodView>().await?;
    let own = Arc::new(OwnWrites::default());
    let shell = env.shell();
    let ended = pods.index("ended", |pod, value| {
        if pod.value.terminal() && !pod.meta.deleting() {
            value("");
        }
    });
    let threshold = env.settings::<PodGarbageCollectorSettings>().threshold();
    let this = Collector {
        env,
        nodes: nodes.clone(),
        pods: pods.clone(),
        of_node: pods_by_node(&pods),
        ended: ended.clone(),
        missing: Mutex::default(),
        threshold,
        own: own.clone(),
        pod: must(PodView::RESOURCE)?,
        node: must(NodeView::RESOURCE)?,
    };
    let known = nodes.clone();
    let controller = shell
        .controller(this)
        .watches(&pods, move |change, enqueue| concerns(&known, change, enqueue))
        .watches(&pods, move |change, enqueue| {
            let excess = threshold.is_some_and(|threshold| ended.count("") > threshold);
            if excess && has_ended(change) {
                enqueue(Key::cluster(ENDED_PODS_KEY));
            }
        })
        .watches(&nodes, |change, enqueue| {
            if change.new.is_none() {
                enqueue(change.key.clone());
            }
        })
        .own_writes(&own);
    shell.spawn(controller).await
}

/// Enqueues the checks that a change of a pod requires.
fn concerns(nodes: &Cache<NodeView>, change: &Change<PodView>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = &change.new else { return };
    if pod.value.node.is_empty() {
        if pod.meta.deleting() {
            enqueue(change.key.clone());
        }
    } else if nodes.named("", &pod.value.node).is_none() {
        enqueue(Key::cluster(pod.value.node.clone()));
    }
}

/// Whether a pod has ended in this change.
fn has_ended(change: &Change<PodView>) -> bool {
    let ran = change.old.as_ref().is_none_or(|old| !old.value.terminal());
    ran && change.new.as_ref().is_some_and(|pod| pod.value.terminal())
}

#[async_trait]
impl Reconcile for Collector {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        if !key.namespace.is_empty() {
            if let Some(pod) = self.pods.get(key).filter(|pod| pod.meta.deleting() && pod.value.node.is_empty()) {
                self.remove(&pod, None).await?;
            } else {
                self.own.forget(key);
            }
            return Ok(Requeue::No);
        }
        if key.name == ENDED_PODS_KEY {
            let Some(threshold) = self.threshold else { return Ok(Requeue::No) };
            let surplus = plan::surplus(self.ended.get(""), threshold);
            for answer in write::all(surplus.iter().map(|pod| self.remove(pod, None))).await {
                answer?;
            }
            return Ok(Requeue::No);
        }
        self.orphans(&key.name).await
    }
}

impl Collector {
    /// Deletes the pods of a node that does not exist any more.
    async fn orphans(&self, node: &Str) -> Result<Requeue, Failure> {
        if self.nodes.named("", node).is_some() || self.of_node.count(node) == 0 {
            self.missing.lock().remove(node);
            return Ok(Requeue::No);
        }
        let since = *self.missing.lock().entry(node.clone()).or_insert_with(clock::now);
        let due = since + NODE_QUARANTINE;
        if !due.passed() {
            return Ok(Requeue::After(due.remaining()));
        }
        if self.env.client.find(self.node, "", node).await?.is_some() {
            return Ok(Requeue::After(NODE_QUARANTINE));
        }
        let why = ("DeletionByPodGC", "PodGC: node no longer exists");
        let pods = self.of_node.get(node);
        for answer in write::all(pods.iter().map(|pod| self.remove(pod, Some(why)))).await {
            answer?;
        }
        self.missing.lock().remove(node);
        Ok(Requeue::No)
    }

    /// Deletes a pod without a grace period, because no kubelet could finish a graceful deletion.
    async fn remove(&self, pod: &Item<PodView>, why: Option<(&str, &str)>) -> Result<(), Status> {
        let client = &self.env.client;
        if let Some(why) = why {
            write::disrupted(client, self.pod, &pod.meta, why, !pod.value.terminal()).await?;
        }
        let now = DeleteOptions::uid(pod.meta.uid.0.clone()).grace(0);
        match client.delete(self.pod, pod.meta.namespace(), pod.meta.name(), now).await {
            Ok(_) => {
                tracing::info!(pod = %pod.key(), "pod collected");
                Ok(())
            }
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

//! node-lifecycle-controller: marks nodes that do not renew their Leases as not ready, and taints nodes by their conditions (upstream
//! `pkg/controller/nodelifecycle`).

mod act;
mod known;
mod plan;
mod settings;
mod signs;
#[cfg(test)]
mod tests;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Index, Key, OwnWrites, Project, Reconcile, Requeue, Selection};
use oarlock_runtime::{Failure, clock};
use oarlock_schema::Resource;

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::nodes::pods_by_node::pods_by_node;
use crate::project::{LeaseView, NodeView, PodView};

use crate::write;
use known::Known;
pub use settings::NodeLifecycleSettings;
use signs::Signs;
use zones::Paces;

pub(crate) const ROW: Row = Row {
    name: "node-lifecycle-controller",
    aliases: &["nodelifecycle"],
    account: "node-controller",
    component: "node-controller",
    workers: Concurrency::fixed(8),
    spread: Spread::Singleton,
    why: "it limits evictions over the whole cluster",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The namespace of nodes' Leases.
const LEASES: &str = "kube-node-lease";

struct Lifecycle {
    env: Env,
    nodes: Arc<Cache<NodeView>>,
    leases: Arc<Cache<LeaseView>>,
    pods: Index<PodView>,
    signs: Arc<Signs>,
    known: Known,
    paces: Paces,
    settings: NodeLifecycleSettings,
    own: Arc<OwnWrites>,
    node: &'static Resource,
    pod: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let nodes = env.informers.all::<NodeView>().await?;
    let leases = env.informers.select::<LeaseView>(Selection::namespace(LEASES)).await?;
    let pods = env.informers.all::<PodView>().await?;
    let (signs, own) = (Arc::new(Signs::default()), Arc::new(OwnWrites::default()));
    let shell = env.shell();
    let this = Lifecycle {
        settings: env.settings(),
        env,
        nodes: nodes.clone(),
        leases: leases.clone(),
        pods: pods_by_node(&pods),
        signs: signs.clone(),
        known: Known::default(),
        paces: Paces::default(),
        own: own.clone(),
        node: must(NodeView::RESOURCE)?,
        pod: must(PodView::RESOURCE)?,
    };
    let others = nodes.clone();
    let controller = shell
        .controller(this)
        .reconciles(&nodes)
        .watches(&nodes, move |change, enqueue| {
            // The readiness of one node influences whether pods of others may be evicted.
            let ready =
                |item: &Option<Arc<oarlock_informer::Item<NodeView>>>| item.as_ref().map(|node| node.value.ready());
            if ready(&change.old) != ready(&change.new) {
                others.list().iter().filter(|node| !node.value.ready()).for_each(|node| enqueue(node.key().clone()));
            }
        })
        .watches(&leases, move |change, _| {
            // A sign of life only moves the node's deadline; no reconcile is needed.
            if let Some(lease) = &change.new {
                signs.lease(lease.meta.name(), &lease.value.renewed, clock::now());
            }
        })
        .reads(&pods)
        .own_writes(&own);
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for Lifecycle {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some(node) = self.nodes.get(key) else {
            if let Some(uid) = self.known.forget(&key.name) {
                self.removed(key, &uid);
            }
            self.signs.forget(&key.name);
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        if self.known.add(&node) {
            self.registered(&node);
        }
        let now = clock::now();
        if let Some(lease) = self.leases.named(LEASES, &key.name) {
            self.signs.lease(&key.name, &lease.value.renewed, now);
        }
        let seen = self.signs.heartbeat(&key.name, node.value.heartbeat, now);
        let grace = self.settings.grace(node.value.condition("Ready").is_some());
        let lost = seen.elapsed() >= grace;
        if lost && plan::silent(&node.value) {
            self.silence(&node).await?;
            return Ok(Requeue::After(Duration::ZERO));
        }
        if matches!(node.value.condition("Ready"), Some("Unknown" | "False")) {
            self.unready(&node).await?;
        }
        // The zones matter only for a node that is not ready; counting them for every ready node would be wasteful.
        let zones = if node.value.ready() { zones::Zones::default() } else { zones::all(&self.nodes.list()) };
        let mut wanted = plan::taints(&node.value, zones.evict, write::now());
        let mut pause = None;
        if plan::adds_eviction(&node.value, &wanted) {
            let zone = zones::zone(&node.meta);
            if let Err(wait) = self.paces.take(&zone, zones.pause(&zone, &self.settings), now) {
                wanted = plan::without_eviction(&node.value, wanted);
                pause = Some(wait);
            }
        }
        if wanted != node.value.taints {
            self.taint(&node, &wanted).await?;
        }
        let next = if lost { None } else { Some((seen + grace).remaining().max(Duration::from_millis(10))) };
        Ok([pause, next].into_iter().flatten().min().map_or(Requeue::No, Requeue::After))
    }
}

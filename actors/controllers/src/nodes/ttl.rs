//! ttl-controller: writes an annotation to each node that says for how long kubelets may cache Secrets and ConfigMaps, by the size of the cluster (upstream
//! `pkg/controller/ttl`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Cache, Key, OwnWrites, Project, Reconcile, Requeue};
use oarlock_runtime::Failure;
use oarlock_schema::Resource;
use serde_json::json;

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread, must};
use crate::project::{NodeView, TTL};

use crate::write;

pub(crate) const ROW: Row = Row {
    name: "ttl-controller",
    aliases: &["ttl"],
    account: "ttl-controller",
    component: "ttl-controller",
    workers: Concurrency::fixed(4),
    spread: Spread::Singleton,
    why: "the size of the cluster decides for every node alike",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The steps: number of nodes at least and at most, and seconds. Steps overlap, so that a cluster whose size varies around a boundary does not change its
/// step each time.
const STEPS: [(usize, usize, i64); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// Returns the step of a cluster of this size whose step was `step` before.
fn step(mut step: usize, nodes: usize) -> usize {
    while STEPS.get(step).is_some_and(|(_, most, _)| nodes > *most) {
        step += 1;
    }
    while step > 0 && STEPS.get(step).is_none_or(|(least, _, _)| nodes < *least) {
        step -= 1;
    }
    step
}

fn seconds(step: usize) -> i64 {
    STEPS.get(step).map_or(0, |(_, _, seconds)| *seconds)
}

struct Ttl {
    env: Env,
    nodes: Arc<Cache<NodeView>>,
    step: Arc<AtomicUsize>,
    own: Arc<OwnWrites>,
    node: &'static Resource,
}

async fn start(env: Env) -> Result<(), Error> {
    let nodes = env.informers.all::<NodeView>().await?;
    let (own, current) = (Arc::new(OwnWrites::default()), Arc::new(AtomicUsize::new(0)));
    let shell = env.shell();
    let this =
        Ttl { env, nodes: nodes.clone(), step: current.clone(), own: own.clone(), node: must(NodeView::RESOURCE)? };
    let all = nodes.clone();
    let controller = shell
        .controller(this)
        .watches(&nodes, move |change, enqueue| {
            if change.old.is_none() || change.new.is_none() {
                let before = current.load(Ordering::Relaxed);
                let now = step(before, all.len());
                current.store(now, Ordering::Relaxed);
                if now != before {
                    all.keys().into_iter().for_each(&mut *enqueue);
                }
            }
            if change.new.is_some() {
                enqueue(change.key.clone());
            }
        })
        .own_writes(&own);
    shell.spawn(controller).await
}

#[async_trait]
impl Reconcile for Ttl {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let wanted = seconds(self.step.load(Ordering::Relaxed));
        let Some(node) = self.nodes.get(key) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        if node.value.ttl == Some(wanted) {
            return Ok(Requeue::No);
        }
        let patch = json!({"metadata": {"uid": node.meta.uid.as_str(), "annotations": {TTL: wanted.to_string()}}});
        match write::patch_metadata(&self.env.client, self.node, &node.meta, &patch).await {
            Ok(written) => self.own.wrote(key, &self.nodes, written.revision),
            // The node is deleted, or a new node has its name.
            Err(status) if status.is_not_found() || status.is_conflict() => {}
            Err(status) => return Err(status.into()),
        }
        Ok(Requeue::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_clusters_keep_longer_and_a_boundary_is_crossed_once() {
        let mut current = 0;
        for (nodes, expected) in [
            (1, 0),
            (100, 0),
            (101, 15),
            (95, 15),
            (90, 15),
            (89, 0),
            (501, 30),
            (450, 30),
            (449, 15),
            (5000, 300),
            (1800, 300),
            (1799, 60),
            (0, 0),
        ] {
            current = step(current, nodes);
            assert_eq!(seconds(current), expected, "{nodes} nodes");
        }
    }
}

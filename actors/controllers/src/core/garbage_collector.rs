//! garbage-collector-controller: deletes the dependents of deleted objects (upstream `pkg/controller/garbagecollector`).
//!
//! The graph consists of two indexes over metadata caches of every deletable resource: objects by uid, and objects by the uids of their owners. An
//! owner that no cache shows is looked up at the API server before it counts as absent, because the cache may be stale.

mod absent;
mod act;
mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use oarlock_informer::{Change, Key, OwnWrites, Reconcile, Requeue, WorkQueue};
use oarlock_runtime::Failure;

use crate::error::Error;
use crate::harness::{Concurrency, Env, Row, Spread};

use absent::Absent;
use graph::{Graph, Object};
use oarlock_seeded_bug::seeded_bug;
use plan::{FOREGROUND, ORPHAN, Unknown};

pub(crate) const ROW: Row = Row {
    name: "garbage-collector-controller",
    aliases: &["garbagecollector"],
    account: "generic-garbage-collector",
    component: "garbage-collector-controller",
    workers: Concurrency::flag("concurrent-gc-syncs", 20),
    spread: Spread::Singleton,
    why: "it holds the graph of all owners and dependents",
    on_by_default: true,
    gate: None,
    needs: &[],
    start: |env| start(env).boxed(),
};

/// The time after which an object is checked again whose owner exists but is in no cache yet.
const UNSEEN_OWNER_RETRY: Duration = Duration::from_secs(5);

struct Collector {
    env: Env,
    graph: Arc<Graph>,
    absent: Absent,
    queue: Arc<WorkQueue<Key>>,
    own: Arc<OwnWrites>,
}

async fn start(env: Env) -> Result<(), Error> {
    let graph = Arc::new(Graph::new(&env.informers).await?);
    let (queue, own) = (Arc::new(WorkQueue::default()), Arc::new(OwnWrites::default()));
    let shell = env.shell();
    let this =
        Collector { env, graph: graph.clone(), absent: Absent::default(), queue: queue.clone(), own: own.clone() };
    let mut controller = shell.controller(this).queue(&queue).own_writes(&own);
    for cache in graph.caches() {
        let graph = graph.clone();
        controller = controller.watches(cache, move |change, enqueue| concerns(&graph, change, enqueue));
    }
    shell.spawn(controller).await
}

/// Returns the queue key of an object: its uid.
fn key(uid: &str) -> Key {
    Key::cluster(uid)
}

/// Enqueues the objects that a change concerns: the object itself if its owners or its deletion changed, the dependents of a deleted object, and owners
/// that may have waited for the object.
fn concerns(graph: &Graph, change: &Change<()>, enqueue: &mut dyn FnMut(Key)) {
    let same = |old: &&Object| change.new.as_ref().is_some_and(|new| new.meta.uid == old.meta.uid);
    let kept = change.old.as_ref().filter(same);
    if let Some(new) = &change.new {
        let news = kept.is_none_or(|old| {
            old.meta.owners != new.meta.owners
                || old.meta.deletion != new.meta.deletion
                || old.meta.finalizers != new.meta.finalizers
        });
        if news && (!new.meta.owners.is_empty() || plan::pending(&new.meta)) {
            enqueue(key(new.meta.uid.as_str()));
        }
    }
    let Some(old) = &change.old else { return };
    if kept.is_none() {
        for (_, dependent) in graph.dependents(old.meta.uid.as_str()) {
            enqueue(key(dependent.meta.uid.as_str()));
        }
    }
    let released = kept.is_none() || change.new.as_ref().is_some_and(|new| new.meta.owners != old.meta.owners);
    if released {
        old.meta.owners.iter().filter(|owner| owner.block_deletion).for_each(|owner| enqueue(key(owner.uid.as_str())));
    }
}

#[async_trait]
impl Reconcile for Collector {
    async fn reconcile(&self, key: &Key) -> Result<Requeue, Failure> {
        let Some((resource, object)) = self.graph.find(&key.name) else {
            self.own.forget(key);
            return Ok(Requeue::No);
        };
        let meta = &object.meta;
        if plan::waits(meta, ORPHAN) {
            self.orphan(key, resource, meta).await?;
            return Ok(Requeue::No);
        }
        if plan::waits(meta, FOREGROUND) {
            self.foreground(key, resource, meta).await?;
            return Ok(Requeue::No);
        }
        if meta.deleting() || meta.owners.is_empty() {
            return Ok(Requeue::No);
        }
        let (owners, unseen) = match self.owners(resource, meta).await? {
            Ok(known) => known,
            Err(Unknown::Kind) => return Ok(Requeue::Backoff),
            Err(Unknown::Namespace) => return Ok(Requeue::No),
        };
        let dependents = self.graph.dependents(meta.uid.as_str());
        let verdict = plan::judge(meta, &owners, dependents.iter().map(|(_, dependent)| &dependent.meta));
        self.perform(key, resource, meta, verdict).await?;
        let unseen = unseen && !seeded_bug!("unseen_owner_forgotten");
        // A restarted watch may never show an owner that is deleted soon, so its deletion would not be noticed.
        Ok(if unseen { Requeue::After(UNSEEN_OWNER_RETRY) } else { Requeue::No })
    }
}

//! Where keys come from.

use std::sync::Arc;

use async_trait::async_trait;
use oarlock_runtime::clock::Instant;

use crate::cache::{Cache, Lagging};
use crate::changes::{Change, Notice};
use crate::key::Key;
use crate::work_queue::WorkQueue;

/// So many keys wait for the mapping at most; more are found by looking at the whole cache.
const CAPACITY: usize = 65_536;

/// A cache that a controller watches or reads.
#[async_trait]
pub(super) trait Source: Send + Sync + 'static {
    /// Waits until the cache is synced.
    async fn synced(&self, deadline: Instant) -> Result<(), Lagging>;
    /// Feeds the queue for as long as it is polled.
    async fn feed(&self, queue: &WorkQueue<Key>);
}

pub(super) type Map<T> = dyn Fn(&Change<T>, &mut dyn FnMut(Key)) + Send + Sync;

pub(super) struct Watched<T> {
    pub(super) cache: Arc<Cache<T>>,
    pub(super) map: Option<Box<Map<T>>>,
}

#[async_trait]
impl<T: Send + Sync + 'static> Source for Watched<T> {
    async fn synced(&self, deadline: Instant) -> Result<(), Lagging> {
        self.cache.synced(deadline).await
    }

    async fn feed(&self, queue: &WorkQueue<Key>) {
        let Some(map) = &self.map else { return std::future::pending().await };
        let mut changes = self.cache.subscribe(CAPACITY);
        let mut enqueue = |key| queue.add(key);
        loop {
            match changes.next().await {
                Notice::Changes(changes) => changes.iter().for_each(|change| map(change, &mut enqueue)),
                Notice::Resync => {
                    for item in self.cache.list() {
                        map(&Change { key: item.key().clone(), old: None, new: Some(item) }, &mut enqueue);
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

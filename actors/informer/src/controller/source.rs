//! The caches of a controller, as sources of keys to reconcile.

use std::sync::Arc;

use async_trait::async_trait;
use oarlock_meta::Revision;
use oarlock_runtime::clock::Instant;

use crate::cache::{Cache, NotCaughtUp};
use crate::changes::{Change, Notice};
use crate::key::Key;

/// The most changed keys that wait for the mapping; beyond this the whole cache is mapped again.
const MAX_PENDING_CHANGES: usize = 65_536;

/// A cache that a controller watches or reads.
#[async_trait]
pub(super) trait Source: Send + Sync + 'static {
    /// Waits until the cache is synced and has applied every change up to a revision.
    async fn at_least(&self, revision: Revision, deadline: Instant) -> Result<(), NotCaughtUp>;
    /// Passes the keys that changes concern to `enqueue`, for as long as the future is polled.
    async fn feed(&self, enqueue: &(dyn Fn(Key) + Send + Sync));
    /// Passes the keys that all cached objects concern to `enqueue`.
    fn all(&self, enqueue: &mut dyn FnMut(Key));
}

pub(super) type Map<T> = dyn Fn(&Change<T>, &mut dyn FnMut(Key)) + Send + Sync;

/// A cache with the mapping of its changes to keys; without a mapping the cache is only read.
pub(super) struct Watched<T> {
    pub(super) cache: Arc<Cache<T>>,
    pub(super) map: Option<Box<Map<T>>>,
}

#[async_trait]
impl<T: Send + Sync + 'static> Source for Watched<T> {
    async fn at_least(&self, revision: Revision, deadline: Instant) -> Result<(), NotCaughtUp> {
        self.cache.at_least(revision, deadline).await
    }

    async fn feed(&self, enqueue: &(dyn Fn(Key) + Send + Sync)) {
        let Some(map) = &self.map else { return std::future::pending().await };
        let mut changes = self.cache.subscribe(MAX_PENDING_CHANGES);
        loop {
            match changes.next().await {
                Notice::Changes(changes) => changes.iter().for_each(|change| map(change, &mut |key| enqueue(key))),
                Notice::Resync => self.all(&mut |key| enqueue(key)),
            }
            tokio::task::yield_now().await;
        }
    }

    fn all(&self, enqueue: &mut dyn FnMut(Key)) {
        let Some(map) = &self.map else { return };
        for item in self.cache.list() {
            map(&Change { key: item.key().clone(), old: None, new: Some(item) }, enqueue);
        }
    }
}

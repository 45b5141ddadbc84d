//! A controller's own writes that its caches do not show yet. Deciding before the caches show them would repeat the writes.
//!
//! Upstream counts expected creations and deletions. Revisions make that unnecessary: a write returns the revision at which it happened,
//! and a cache knows the revision it has applied. Deletes that return no revision are settled when the object is deleted or being deleted.

use std::sync::Arc;

use hashbrown::HashMap;
use oarlock_meta::{Revision, Uid};
use oarlock_runtime::Follower;
use oarlock_runtime::clock::{self, Instant};
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;

use crate::cache_revision::{CacheRevision, Progress};
use crate::key::Key;

#[cfg(test)]
mod tests;

/// Settled writes are removed each time the number of keys reaches a power of two of at least this many.
const SWEEP_FROM_KEYS: usize = 1024;

/// The writes of a controller that its caches do not show yet, by the key that was being reconciled.
#[derive(Default)]
pub struct OwnWrites {
    pending: Mutex<HashMap<Key, Vec<Pending>>>,
}

/// A write that its cache may not show yet.
struct Pending {
    cache: Arc<dyn CacheRevision>,
    what: What,
}

/// The condition under which a cache shows a write: a revision is reached, or an incarnation is absent.
enum What {
    Wrote(Revision),
    Deleted(Key, Uid),
}

impl Pending {
    fn settled(&self) -> bool {
        match &self.what {
            What::Wrote(revision) => self.cache.applied() >= *revision || seeded_bug!("own_writes_unseen"),
            What::Deleted(key, uid) => !self.cache.holds(key, uid),
        }
    }
}

impl std::fmt::Debug for OwnWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnWrites").field("keys", &self.pending.lock().len()).finish_non_exhaustive()
    }
}

impl OwnWrites {
    /// Records that the reconcile of `key` wrote an object of `cache` at `revision`.
    pub fn wrote(&self, key: &Key, cache: &Arc<impl CacheRevision>, revision: Revision) {
        let cache: Arc<dyn CacheRevision> = cache.clone();
        let mut pending = self.pending.lock();
        sweep(&mut pending);
        let list = pending.entry_ref(key).or_default();
        for known in &mut *list {
            if let What::Wrote(at) = &mut known.what
                && Arc::ptr_eq(&known.cache, &cache)
            {
                *at = revision.max(*at);
                return;
            }
        }
        list.push(Pending { cache, what: What::Wrote(revision) });
    }

    /// Records that the reconcile of `key` deleted an object of `cache`.
    pub fn deleted(&self, key: &Key, cache: &Arc<impl CacheRevision>, object: Key, uid: Uid) {
        let pending = Pending { cache: cache.clone(), what: What::Deleted(object, uid) };
        if pending.settled() {
            return;
        }
        let mut all = self.pending.lock();
        sweep(&mut all);
        all.entry_ref(key).or_default().push(pending);
    }

    /// Whether the caches show every recorded write of `key`.
    #[must_use]
    pub fn settled(&self, key: &Key) -> bool {
        self.unsettled(key).is_none()
    }

    /// Waits until the caches show every recorded write of `key`; `false` when they do not at `deadline`. The records are then dropped, as upstream
    /// lets expectations expire, and the next decision is made on what the caches show.
    pub async fn wait(&self, key: &Key, deadline: Instant) -> bool {
        while let Some(mut progress) = self.unsettled(key) {
            // The follower was created before the cache was read, so no progress between the two is missed.
            if clock::timeout_at(deadline, progress.changed()).await.is_err() {
                self.forget(key);
                return false;
            }
        }
        true
    }

    /// Drops the records of `key`, which is not reconciled any more.
    pub fn forget(&self, key: &Key) {
        self.pending.lock().remove(key);
    }

    fn unsettled(&self, key: &Key) -> Option<Follower<Progress>> {
        let mut pending = self.pending.lock();
        let list = pending.get_mut(key)?;
        let mut wait = None;
        list.retain(|one| {
            let progress = one.cache.follow();
            let open = !one.settled();
            if open && wait.is_none() {
                wait = Some(progress);
            }
            open
        });
        if list.is_empty() {
            pending.remove(key);
        }
        wait
    }
}

fn sweep(pending: &mut HashMap<Key, Vec<Pending>>) {
    if pending.len() >= SWEEP_FROM_KEYS && pending.len().is_power_of_two() {
        pending.retain(|_, list| {
            list.retain(|one| !one.settled());
            !list.is_empty()
        });
    }
}

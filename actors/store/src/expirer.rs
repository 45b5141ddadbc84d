//! The expirer: deletes objects of one resource at an expiry time computed from the object (Events: last timestamp + `--event-ttl`).
//!
//! The time is computed and not stored, so it is the same after every restart and on every backend. Deletes compare the revision: an object that was
//! written again meanwhile is kept, and its time is computed again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use oarlock_meta::Revision;
use oarlock_runtime::{ActorKind, Failure, LoopCtx, LoopHandle, Phase, System, clock};
use oarlock_storage::{Append, Key};

use crate::batch::Write;
use crate::entry::Entry;
use crate::error::WriteError;
use crate::event::EventKind;
use crate::store::Store;
use crate::view::Interest;

/// Deletes expired objects.
pub static EXPIRER: ActorKind = ActorKind { name: "store.expirer", phase: Phase::Crew, ..ActorKind::DEFAULT };

/// Computes when an object is to be deleted; `None` means never.
pub type Expiry = Arc<dyn Fn(&Entry) -> Option<Timestamp> + Send + Sync>;

/// How many entries are loaded together in the initial scan.
const LOADED_AT_ONCE: usize = 256;
/// The most concurrent deletes.
const CONCURRENT_DELETES: usize = 64;
/// The longest sleep, so that a change of the wall clock is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// The deadline of one delete.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a delete that the store refused.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(1);

type Due = Reverse<(Timestamp, Key, Revision)>;

/// Starts an expirer for the resource with this key prefix.
///
/// # Errors
/// As [`System::spawn_loop`].
pub fn start<'a>(
    system: &'a System,
    store: Store,
    prefix: &str,
    expiry: Expiry,
) -> BoxFuture<'a, Result<LoopHandle, oarlock_runtime::Error>> {
    let prefix: Arc<str> = prefix.into();
    let key = Arc::clone(&prefix);
    let run = move |ctx| run(ctx, store.clone(), Arc::clone(&prefix), Arc::clone(&expiry));
    system.spawn_loop(&EXPIRER, key, run)
}

async fn run(ctx: LoopCtx, store: Store, prefix: Arc<str>, expiry: Expiry) -> Result<(), Failure> {
    loop {
        let snapshot = store.view().list(&prefix);
        let due = |entry: &Arc<Entry>| Some(Reverse((expiry(entry)?, entry.key.clone(), entry.revision)));
        let mut heap = BinaryHeap::new();
        let entries: Vec<Arc<Entry>> = snapshot.iter().cloned().collect();
        for some in entries.chunks(LOADED_AT_ONCE) {
            // An object that was replaced meanwhile arrives again as an event.
            heap.extend(store.view().ready(some.to_vec()).await?.iter().flatten().filter_map(due));
        }
        let Ok(mut cursor) = store.view().watch(&prefix, snapshot.revision(), Interest::All, None) else { continue };
        drop((snapshot, entries));
        loop {
            let now = clock::wall();
            let wait = heap.peek().map_or(LONGEST_SLEEP, |Reverse((at, ..))| until(*at, now).min(LONGEST_SLEEP));
            let Some(batch) = ctx.or_stop(cursor.next_batch(1024, clock::after(wait))).await else { return Ok(()) };
            // The watch window has moved past this watcher: scan all objects again.
            let Ok(batch) = batch else { break };
            let live = batch.events.iter().filter(|event| event.kind != EventKind::Deleted);
            heap.extend(live.filter_map(|event| due(&event.entry)));
            let refused = expire(&ctx, &store, &mut heap).await;
            if refused && !ctx.sleep(PAUSE_AFTER_REFUSAL).await {
                return Ok(());
            }
        }
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// Deletes all objects that are due. Returns whether the store refused a delete, which then stays due.
async fn expire(ctx: &LoopCtx, store: &Store, heap: &mut BinaryHeap<Due>) -> bool {
    loop {
        let now = clock::wall();
        let mut flight = Vec::new();
        while flight.len() < CONCURRENT_DELETES && heap.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            flight.extend(heap.pop());
        }
        if flight.is_empty() {
            return false;
        }
        let deletes = flight.into_iter().map(|due| async move {
            let Reverse((_, key, revision)) = &due;
            // A newer version has its own due time; the entry of the old version is dropped.
            if store.view().get(key).is_none_or(|entry| entry.revision != *revision) {
                return None;
            }
            let write = Write::new(Append::delete(key.clone(), *revision));
            match store.write(write, clock::after(DELETE_TIMEOUT)).await {
                Ok(_) | Err(WriteError::Conflict { .. }) => None,
                Err(error) => {
                    tracing::warn!(%error, key = %key, "an expired object could not be deleted yet");
                    Some(due)
                }
            }
        });
        let refused: Vec<Due> = ctx.protected(futures::future::join_all(deletes)).await.into_iter().flatten().collect();
        if !refused.is_empty() {
            heap.extend(refused);
            return true;
        }
    }
}

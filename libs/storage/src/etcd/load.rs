//! Initial load from etcd: the state at a recent revision, then the history since, which fills the watch window.
//!
//! etcd replays history slowly (about 5,000 events/s), so only the most recent part is replayed; the state before is read page by page at one revision.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use oarlock_contracts::etcd::{KeyValue, RangeRequest};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::base::identify;
use super::heads::{Head, Heads};
use super::shared::{RangeAnswer, Shared};
use super::tail::{EtcdTail, compacted};
use crate::{Error, LoadPart, Loaded, Record, Tail};

/// The most revisions of history that a load reads.
const MAX_HISTORY_REVISIONS: u64 = 2_000;
/// Target bytes of values per page, and the number of keys of the first page, when the average size is unknown.
const PAGE_BYTES: usize = 4 << 20;
const PAGE_KEYS: i64 = 256;
/// Compactions that may interrupt a load before it fails.
const MAX_COMPACTED_LOADS: usize = 3;
/// Prefix by which upstream marks encrypted values.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Passes state and history to `each`.
///
/// # Errors
/// Any failure to read; [`Error::Corrupt`] for a value that is encrypted.
pub(crate) async fn load(shared: &Arc<Shared>, each: &mut (dyn FnMut(LoadPart) + Send)) -> Result<Loaded, Error> {
    let mut tries = 0;
    // Retries are possible only up to the first page: pieces passed to `each` cannot be taken back.
    let (start, first, now) = loop {
        let now = identify(shared).await?;
        let floor = shared.raise_floor(compacted(shared).await?);
        // Revisions before the history began are below the floor. An empty etcd is at 1; revision 0 would mean the latest.
        let start = floor.max(Revision(now.get().saturating_sub(MAX_HISTORY_REVISIONS).max(1)));
        match page(shared, start, shared.layout.range().0, PAGE_KEYS).await {
            Ok(first) => break (start, first, now),
            Err(Error::Compacted { .. }) if tries < MAX_COMPACTED_LOADS => tries += 1,
            Err(error) => return Err(error),
        }
    };
    let history = first.history;
    let mut heads = Heads::new(start);
    let mut next = Some(first);
    while let Some(answer) = next {
        let mut bytes = 0;
        for kv in &answer.kvs {
            bytes += kv.value.len();
            let Some(key) = shared.layout.decode(&kv.key) else { continue };
            readable(kv)?;
            shared.count_value(Some(&kv.value));
            let head = Head { revision: history.revision(kv.mod_revision), version: kv.version };
            heads.learn(key.clone(), Some(head));
            each(LoadPart::State(Record { revision: head.revision, key, prev: None, value: Some(kv.value.clone()) }));
        }
        next = match answer.kvs.last() {
            Some(last) if answer.more => {
                let mean = (bytes / answer.kvs.len()).max(1);
                let keys = i64::try_from(PAGE_BYTES / mean).unwrap_or(PAGE_KEYS).clamp(16, 10_000);
                Some(page(shared, start, after(&last.key), keys).await?)
            }
            _ => None,
        };
    }
    let revision = follow(shared, heads, now, each).await?;
    let revision = if seeded_bug!("load_beyond_its_revision") { revision.min(now) } else { revision };
    Ok(Loaded { revision, floor: start })
}

/// Reads the history after the state. The end may be beyond `until`: a compaction may have moved the state itself, and the tail delivers whole messages.
async fn follow(
    shared: &Arc<Shared>,
    heads: Heads,
    until: Revision,
    each: &mut (dyn FnMut(LoadPart) + Send),
) -> Result<Revision, Error> {
    let mut at = heads.at;
    if at >= until {
        shared.keep_heads(heads);
        return Ok(at);
    }
    each(LoadPart::Floor(at));
    shared.request_progress(until);
    let mut tail = EtcdTail::open(Arc::clone(shared), heads).await?;
    while at < until {
        let batch = tail.next(usize::MAX).await?;
        at = batch.progress;
        for record in batch.records {
            each(LoadPart::History(record));
        }
    }
    Ok(at)
}

async fn page(shared: &Shared, at: Revision, key: Bytes, limit: i64) -> Result<RangeAnswer, Error> {
    let (range_end, revision) = (shared.layout.range().1, shared.history().number(at));
    shared.range(RangeRequest { key, range_end, limit, revision, ..RangeRequest::default() }).await
}

/// Returns the first key after this one.
fn after(key: &Bytes) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

fn readable(kv: &KeyValue) -> Result<(), Error> {
    if kv.value.starts_with(ENCRYPTED) {
        let key = String::from_utf8_lossy(&kv.key);
        let provider = String::from_utf8_lossy(kv.value.get(..48).unwrap_or(&kv.value)).into_owned();
        let provider = provider.rsplit_once(':').map_or(provider.as_str(), |(provider, _)| provider).to_owned();
        return Err(Error::Corrupt(format!(
            "{key} is encrypted ({provider}), which is not supported: decrypt it first"
        )));
    }
    Ok(())
}

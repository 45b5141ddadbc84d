//! Reading everything there is: the state a little back from the present, then the history since, as a warm watch window.
//!
//! etcd replays history slowly (some 5,000 events/s), so only its last stretch is; the rest is read as state, page by page at one revision.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use oarlock_contracts::etcd::{KeyValue, RangeRequest};
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;

use super::heads::{Head, Heads};
use super::history::identify;
use super::shared::{Found, Shared};
use super::tail::{EtcdTail, compacted};
use crate::{Error, Loaded, Piece, Record, Tail};

/// Revisions of history that are read, at most.
const WARM: u64 = 2_000;
/// Bytes of values that a page should hold, and the keys of the first one, whose size nobody knows.
const PAGE_BYTES: usize = 4 << 20;
const PAGE_KEYS: i64 = 256;
/// Compactions that may overtake a load before it gives up.
const TRIES: usize = 3;
/// How upstream marks a value that it has encrypted.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Hands everything to `each`.
///
/// # Errors
/// Any failure to read; [`Error::Corrupt`] for a value that is encrypted.
pub(crate) async fn load(shared: &Arc<Shared>, each: &mut (dyn FnMut(Piece) + Send)) -> Result<Loaded, Error> {
    let mut tries = 0;
    // The first page decides: once a piece has been handed out, there is no way back.
    let (start, first, now) = loop {
        let now = identify(shared).await?;
        let floor = shared.raise_floor(compacted(shared).await?);
        // What was before the history began is below the floor. An empty etcd is at 1; to ask for 0 would be to ask for the present.
        let start = floor.max(Revision(now.get().saturating_sub(WARM).max(1)));
        match page(shared, start, shared.layout.range().0, PAGE_KEYS).await {
            Ok(first) => break (start, first, now),
            Err(Error::Compacted { .. }) if tries < TRIES => tries += 1,
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
            shared.met(Some(&kv.value));
            let head = Head { revision: history.revision(kv.mod_revision), version: kv.version };
            heads.learn(key.clone(), Some(head));
            each(Piece::State(Record { revision: head.revision, key, prev: None, value: Some(kv.value.clone()) }));
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

/// The history above the state; up to where that is, which may be beyond `until`: the state itself is, when a compaction came in between, and the
/// tail may be.
async fn follow(
    shared: &Arc<Shared>,
    heads: Heads,
    until: Revision,
    each: &mut (dyn FnMut(Piece) + Send),
) -> Result<Revision, Error> {
    let mut at = heads.at;
    if at >= until {
        shared.keep_heads(heads);
        return Ok(at);
    }
    each(Piece::Floor(at));
    shared.want(until);
    let mut tail = EtcdTail::open(Arc::clone(shared), heads).await?;
    while at < until {
        let batch = tail.next(usize::MAX).await?;
        at = batch.progress;
        for record in batch.records {
            each(Piece::History(record));
        }
    }
    Ok(at)
}

async fn page(shared: &Shared, at: Revision, key: Bytes, limit: i64) -> Result<Found, Error> {
    let (range_end, revision) = (shared.layout.range().1, shared.history().number(at));
    shared.range(RangeRequest { key, range_end, limit, revision, ..RangeRequest::default() }).await
}

/// The first key behind this one.
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

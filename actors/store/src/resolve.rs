//! Outcomes of writes to a shared log, derived from the log's tail.
//!
//! A committed write is answered when the View has applied it, a conflict when the View has applied the conflicting revision. For an unknown outcome,
//! the events of the key are searched. An event with this write's bytes is this write. For updates and deletes, an event that replaces the expected
//! revision by another write is a conflict, because no revision occurs twice. An event with the same bytes, written while the claim was not ours,
//! belongs to another holder that does the same work: the commit compares the claim. A delete of the expected revision cannot be attributed: it
//! carries no bytes, and two callers must not both be told that it was theirs. A create that meets another create proves nothing: it may be delayed,
//! and be applied after the other one's delete. An outcome that is not seen before the deadline, or within [`UNKNOWN_OUTCOME_SEARCH`], stays unknown;
//! the callers then read the objects themselves.

use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Cause, Expect, Fence, GroupOutcome};

use crate::batch::{Answer, Request, Write};
use crate::entry::Indexer;
use crate::error::WriteError;
use crate::event::{Event, EventKind};
use crate::view::{Interest, View};

/// How long the event of an unknown outcome is awaited. Longer than etcd keeps a request that its leader has not answered (7 s), and than the
/// election of another leader takes.
const UNKNOWN_OUTCOME_SEARCH: Duration = Duration::from_secs(10);

/// Waits until the View has applied what the outcome refers to, and returns the answer; `before` was applied before the commit began.
pub(crate) async fn answer(
    view: &View,
    indexer: &dyn Indexer,
    request: &Request,
    outcome: GroupOutcome,
    before: Revision,
) -> Answer {
    let deadline = request.deadline;
    match outcome {
        GroupOutcome::Rejected { index, current, cause } => {
            // A retry must run against a View that has applied the conflicting revision.
            let _late = view.wait_applied(current.unwrap_or_default(), deadline).await;
            Err(WriteError::Conflict { index, current, cause })
        }
        GroupOutcome::Committed(revisions) => {
            let mut entries = Vec::with_capacity(revisions.len());
            for (write, revision) in request.writes.iter().zip(revisions) {
                view.wait_applied(revision, deadline).await.map_err(|_| WriteError::Unknown)?;
                let entry = match write.entry(revision, indexer) {
                    Some(entry) => Some(entry),
                    // Only the event has the last state of a deleted object.
                    None => {
                        let event = find(view, write, before, deadline, |event| event.revision == revision).await;
                        event.map(|event| Arc::clone(&event.entry))
                    }
                };
                entries.push(entry.ok_or(WriteError::Unknown)?);
            }
            Ok(entries)
        }
        GroupOutcome::Unknown => {
            let deadline = deadline.min(clock::after(UNKNOWN_OUTCOME_SEARCH));
            let mut entries = Vec::with_capacity(request.writes.len());
            for (index, write) in request.writes.iter().enumerate() {
                let telling = |event: &Event| is_ours(event, write, indexer) || succeeds(event, write);
                let event = find(view, write, before, deadline, telling).await.ok_or(WriteError::Unknown)?;
                if !is_ours(&event, write, indexer) {
                    let deleted = write.append.value.is_none() && event.kind == EventKind::Deleted;
                    if deleted && !seeded_bug!("delete_claimed") {
                        return Err(WriteError::Unknown);
                    }
                    let current = view.get(&write.append.key).map(|entry| entry.revision);
                    return Err(WriteError::Conflict { index, current, cause: Cause::Head });
                }
                if let Some(fence) = &write.append.fence
                    && lapsed(view, fence, before, event.revision).ok_or(WriteError::Unknown)?
                    && !seeded_bug!("lapsed_claim_credited")
                {
                    let current = view.get(&fence.key).map(|entry| entry.revision);
                    return Err(WriteError::Conflict { index, current, cause: Cause::Fence });
                }
                entries.push(Arc::clone(&event.entry));
            }
            Ok(entries)
        }
    }
}

/// Returns the first event of the write's key after `before` that matches.
async fn find(
    view: &View,
    write: &Write,
    before: Revision,
    deadline: Instant,
    wanted: impl Fn(&Event) -> bool,
) -> Option<Arc<Event>> {
    let key = &write.append.key;
    let interest = Interest::Object { namespace: key.namespace().into(), name: key.name().into() };
    let mut cursor = view.watch(key.resource(), before, interest, None).ok()?;
    loop {
        let batch = cursor.next_batch(64, deadline).await.ok()?;
        if batch.events.is_empty() {
            return None;
        }
        if let Some(event) = batch.events.iter().find(|event| wanted(event)) {
            return Some(Arc::clone(event));
        }
    }
}

/// Whether a claim was not held when `at` was written; `before` was applied before its holder tried to write. `None` when that is below the watch
/// window.
fn lapsed(view: &View, fence: &Fence, before: Revision, at: Revision) -> Option<bool> {
    let key = &fence.key;
    if at < fence.at {
        return Some(true);
    }
    if view.get(key).is_some_and(|entry| entry.revision == fence.at) {
        return Some(false);
    }
    let interest = Interest::Object { namespace: key.namespace().into(), name: key.name().into() };
    // The View may have applied less than the holder of the claim had read.
    let first = view.watch(key.resource(), before.max(fence.at), interest, None).ok()?.take(1).ok()?.events.pop();
    let stood = |change: &Event| change.prev.as_ref().is_some_and(|prev| prev.revision == fence.at);
    Some(first.is_none_or(|change| change.revision < at || !stood(&change)))
}

/// Whether an event replaced the version that this write expected.
fn succeeds(event: &Event, write: &Write) -> bool {
    let prev = event.prev.as_ref().map(|prev| prev.revision);
    matches!(write.append.expect, Expect::At(revision) if prev == Some(revision))
}

/// Whether an event is this write, as far as its bytes and claim can show.
fn is_ours(event: &Event, write: &Write, indexer: &dyn Indexer) -> bool {
    let prev = event.prev.as_ref().map(|prev| prev.revision);
    let expected = match write.append.expect {
        Expect::Absent => prev.is_none(),
        Expect::At(revision) => prev == Some(revision),
        Expect::Any => true,
    };
    if !expected {
        return false;
    }
    match write.entry(event.revision, indexer) {
        Some(ours) => event.kind != EventKind::Deleted && ours.body == event.entry.body,
        None => seeded_bug!("delete_claimed") && event.kind == EventKind::Deleted,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use oarlock_storage::Key;

    use super::*;
    use crate::entry::{Entry, EntryParts};
    use crate::view::{Change, DEFAULT_WINDOW_BYTES};

    #[test]
    fn a_claim_stands_until_its_record_changes() {
        let key = Key::new("/registry/oarlock.dev/assignments", "u");
        let view = View::new(DEFAULT_WINDOW_BYTES);
        let write = |revision, prev: Option<u64>| {
            let entry = Entry::new(key.clone(), &Bytes::from_static(b"{}"), Revision(revision), EntryParts::default());
            let (revision, prev) = (Revision(revision), prev.map(Revision));
            view.apply(&[Change { key: key.clone(), revision, prev, entry: Some(Arc::new(entry)) }]).unwrap();
        };
        let of = |epoch| Fence { key: key.clone(), at: Revision(epoch) };
        let lapsed = |epoch, before, at| lapsed(&view, &of(epoch), Revision(before), Revision(at));
        write(5, None);
        assert_eq!(lapsed(5, 6, 7), Some(false), "nobody else has it to this day");
        assert_eq!(lapsed(5, 3, 4), Some(true), "it was not given yet");
        write(10, Some(5));
        assert_eq!(lapsed(5, 6, 9), Some(false), "it went later");
        assert_eq!(lapsed(5, 6, 11), Some(true));
        assert_eq!(lapsed(5, 12, 13), Some(true), "it had gone before");
        assert_eq!(lapsed(4, 6, 9), Some(true), "it had gone before, and goes again");
        assert_eq!(lapsed(5, 3, 9), Some(false), "it was not known yet");
    }
}

//! Answers over a shared log, where only the tail tells what happened.
//!
//! A committed write is answered when the View has applied it, a conflict when the View has applied what it conflicts
//! with. An unknown outcome is looked for in the events of its key: our bytes are our write; for updates and deletes,
//! our predecessor followed by another write is a conflict, because no revision comes twice. A delete of it is nobody's
//! in particular: it carries no bytes, and two callers must not both be told that it was theirs. A create that meets
//! another's create proves nothing: it may be late, and land after that one's delete. What is not seen before the
//! deadline, or within [`LOOK`], stays unknown: callers have objects that wait for them, and look for themselves.

use std::sync::Arc;
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Cause, Expect, GroupOutcome};

use crate::batch::{Answer, Request, Write};
use crate::entry::Indexer;
use crate::error::WriteError;
use crate::event::{Event, EventKind};
use crate::view::{Interest, View};

/// What is not seen by then will hardly come: longer than etcd itself keeps a request that its leader has not answered (7 s), and than it takes to
/// have another leader.
const LOOK: Duration = Duration::from_secs(10);

/// Waits for what an outcome needs, and makes the answer; `before` was applied before the commit began.
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
            // A retry must not run against a View that has not seen what it lost to.
            let _late = view.wait_applied(current.unwrap_or_default(), deadline).await;
            Err(WriteError::Conflict { index, current, cause })
        }
        GroupOutcome::Committed(revisions) => {
            let mut entries = Vec::with_capacity(revisions.len());
            for (write, revision) in request.writes.iter().zip(revisions) {
                view.wait_applied(revision, deadline).await.map_err(|_| WriteError::Unknown)?;
                let entry = match write.entry(revision, indexer) {
                    Some(entry) => Some(entry),
                    // What was deleted, only its event tells.
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
            let deadline = deadline.min(clock::after(LOOK));
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
                entries.push(Arc::clone(&event.entry));
            }
            Ok(entries)
        }
    }
}

/// The first event of the write's key after `before` that is the one looked for.
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

/// Whether an event took the place of the version this write expected.
fn succeeds(event: &Event, write: &Write) -> bool {
    let prev = event.prev.as_ref().map(|prev| prev.revision);
    matches!(write.append.expect, Expect::At(revision) if prev == Some(revision))
}

/// Whether an event is this write, as far as anyone can tell.
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

//! The commit of an attempt: one object and its companions, objects that must change together with it, under the caller's claim.

use std::sync::Arc;

use oarlock_meta::{GroupResource, Revision, Status};
use oarlock_schema::resource;
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Append, Cause, Expect, Fence, Key};
use oarlock_store::{Entry, EntryParts, Write, WriteError};

use super::Attempt;
use super::life::LifeCommit;
use crate::caller::Caller;
use crate::server::Server;

/// A write encoded for the log.
pub(crate) struct Encoded {
    /// Key, value, and the state of the key that the write expects.
    pub(crate) append: Append,
    /// Parts of the object that the View keeps.
    pub(crate) parts: EntryParts,
    /// `metadata.generation` of the object after the write; of a removed object the last one.
    pub(crate) generation: i64,
}

/// The outcome of a commit, as far as the object itself is concerned.
#[derive(Debug)]
pub(crate) enum Commit {
    /// The write is durable and its entry is in the View.
    Done(Arc<Entry>),
    /// The stored object is not in the state that the write expects. Nothing was written.
    Conflict,
}

impl Commit {
    /// Returns the entry of a successful commit.
    #[must_use]
    pub(crate) fn done(self) -> Option<Arc<Entry>> {
        match self {
            Self::Done(entry) => Some(entry),
            Self::Conflict => None,
        }
    }
}

/// Commits the write of an attempt, together with the writes that allocation and admission ask for. A dry run only builds the entry.
/// `None` when a companion is not in the state that its write expects: nothing was written, and newer companions may be committed.
///
/// # Errors
/// A Status for every failure but a conflict.
pub(super) async fn commit(attempt: &mut Attempt<'_>, write: Encoded) -> Result<Option<Commit>, Status> {
    let (server, caller) = (attempt.server, attempt.caller);
    let dry_run = attempt.context.dry_run && !seeded_bug!("dry_run_commits");
    let life = if dry_run { None } else { LifeCommit::begin(attempt, write.generation, write.append.value.is_none()) };
    let Encoded { append, parts, .. } = write;
    if dry_run {
        return Ok(Some(Commit::Done(Arc::new(uncommitted(append, parts)))));
    }
    let together = std::mem::take(&mut attempt.context.together);
    let append = fenced(caller, append)?;
    let append = if seeded_bug!("fence_from_cache") { compared_in_the_view(server, caller, append)? } else { append };
    let key = append.key.clone();
    let own = Write { append, parts: Some(parts) };
    let result = if together.is_empty() {
        server.store().write(own, caller.deadline).await
    } else {
        let group = std::iter::once(own).chain(together.into_iter().map(Write::new)).collect();
        server
            .store()
            .write_atomic(group, caller.deadline)
            .await
            .map(|entries| entries.into_iter().next())
            .and_then(|first| first.ok_or(WriteError::Unknown))
    };
    match result {
        Ok(entry) => {
            log_claim(caller, &entry);
            if let Some(life) = life {
                life.done(attempt, &entry.uid);
            }
            Ok(Some(Commit::Done(entry)))
        }
        Err(WriteError::Conflict { cause: Cause::Fence, .. }) => Err(stale(caller, &key)),
        Err(WriteError::Conflict { index, .. }) => Ok((index == 0).then_some(Commit::Conflict)),
        Err(other) => Err(crate::errors::write(&other)),
    }
}

/// Builds the entry that a write would have made.
fn uncommitted(append: Append, parts: EntryParts) -> Entry {
    let value = append.value.unwrap_or_default();
    let revision = match append.expect {
        Expect::At(revision) => revision,
        _ => Revision::ZERO,
    };
    // A revision that was never written must not be spliced into the object.
    let parts = if revision.is_zero() { EntryParts { splice: None, ..parts } } else { parts };
    Entry::new(append.key, &value, revision, parts)
}

/// The seeded bug `fence_from_cache`: compares the claim with this server's View instead of comparing it in the commit.
fn compared_in_the_view(server: &Server, caller: &Caller, append: Append) -> Result<Append, Status> {
    match &append.fence {
        Some(fence) if server.view().get(&fence.key).is_none_or(|entry| entry.revision != fence.at) => {
            Err(stale(caller, &append.key))
        }
        _ => Ok(Append { fence: None, ..append }),
    }
}

/// Adds the caller's claim, if any, to a write, as a second compare of the same commit: the Assignment in this server's View may be outdated.
fn fenced(caller: &Caller, append: Append) -> Result<Append, Status> {
    let Some(claim) = &caller.fence else { return Ok(append) };
    let row = resource("oarlock.dev", "v1", "assignments");
    let key = row.and_then(|row| oarlock_registry::key::key(row, "", &claim.unit));
    let key = key.ok_or_else(|| Status::internal_error("the schema has no assignments"))?;
    Ok(append.fenced(Fence { key, at: claim.epoch }))
}

/// Logs a write that was made or refused under a claim (`--log oarlock_apiserver::fence=debug`), so that tests can judge whether the claim was valid
/// at that time.
fn log_claim(caller: &Caller, entry: &Entry) {
    if let Some(claim) = &caller.fence {
        let (unit, epoch, revision) = (&claim.unit, claim.epoch, entry.revision);
        tracing::debug!(target: "oarlock_apiserver::fence", %unit, %epoch, key = %entry.key, %revision, "written under a claim");
    }
}

/// Returns the error for a write whose claim is no longer current.
fn stale(caller: &Caller, key: &Key) -> Status {
    match &caller.fence {
        Some(claim) => {
            tracing::debug!(target: "oarlock_apiserver::fence", unit = %claim.unit, epoch = %claim.epoch, %key, "refused: the claim has gone");
            Status::stale_owner(&GroupResource::new("oarlock.dev", "assignments"), &claim.unit, claim)
        }
        None => Status::internal_error("a write without a claim was refused for its claim"),
    }
}

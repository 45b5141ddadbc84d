//! The stages that every write passes between decoding and commit.

use oarlock_admission::{Attributes, Operation, Rights, Subject};
use oarlock_meta::{GroupResource, Status};
use oarlock_registry::kind::{Request, Requester};
pub(crate) use oarlock_registry::stored::encode;
use oarlock_schema::{Obj, resource};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::{Append, Cause, Fence, Key};
use oarlock_store::{Entry, EntryParts, Write, WriteError};
use std::sync::Arc;

use crate::caller::Caller;
use crate::rights::OwnRights;
use crate::server::Server;
use crate::target::Target;

/// Admission attributes of a write.
pub(crate) fn attributes<'a>(
    rights: &'a OwnRights<'a>,
    operation: Operation,
    target: &'a Target<'a>,
    object: Option<&'a mut Obj>,
    old: Option<&'a Obj>,
    dry_run: bool,
) -> Attributes<'a> {
    let user = &rights.caller.user;
    Attributes {
        operation,
        resource: target.resource(),
        subresource: target.subresource,
        namespace: target.namespace,
        name: target.name,
        user: Subject { name: &user.name, groups: &user.groups, uid: &user.uid, extra: Some(&user.extra) },
        dry_run,
        object,
        old,
        together: Vec::new(),
        held: Vec::new(),
        warnings: Vec::new(),
        authorizer: Some(Rights::new(rights)),
        bus: rights.server.state().bus(),
    }
}

/// Lets the stages check the final object; what they have to say goes to the caller, whether they admit it or not.
///
/// # Errors
/// Whatever a stage refuses.
pub(crate) async fn validate(server: &Server, caller: &Caller, attributes: &mut Attributes<'_>) -> Result<(), Status> {
    let result = server.admission().validate(attributes).await;
    attributes.warnings.drain(..).for_each(|text| caller.warn(text));
    result
}

/// What a strategy knows of a write.
pub(crate) fn request<'a>(caller: &'a Caller, target: &Target<'a>, now: &'a str) -> Request<'a> {
    let user = &caller.user;
    let user = Requester { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra };
    Request { resource: target.resource(), endpoint: target.subresource, now, user }
}

/// How a commit ended.
#[derive(Debug)]
pub(crate) enum Commit {
    /// Durable; the entry is in the View.
    Done(Arc<Entry>),
    /// The object is not in the state the write expected. `first` says whether it was the object itself or something committed together with it.
    Conflict {
        /// The object itself, not a companion.
        own: bool,
    },
}

/// Commits one object, together with what admission asks for; a dry run makes the entry and keeps nothing.
///
/// # Errors
/// A Status for everything but a conflict.
pub(crate) async fn commit(
    server: &Server,
    caller: &Caller,
    append: Append,
    parts: EntryParts,
    together: Vec<Append>,
    dry_run: bool,
) -> Result<Commit, Status> {
    if dry_run {
        let value = append.value.clone().unwrap_or_default();
        let revision = match append.expect {
            oarlock_storage::Expect::At(revision) => revision,
            _ => oarlock_meta::Revision::ZERO,
        };
        // Nothing gets a revision that was never written.
        let parts = if revision.is_zero() { EntryParts { splice: None, ..parts } } else { parts };
        return Ok(Commit::Done(Arc::new(Entry::new(append.key, &value, revision, parts))));
    }
    let append = fenced(caller, append)?;
    let append = match &append.fence {
        _ if !seeded_bug!("fence_from_cache") => append,
        Some(fence) if server.view().get(&fence.key).is_none_or(|entry| entry.revision != fence.at) => {
            return Err(stale(caller, &append.key));
        }
        _ => Append { fence: None, ..append },
    };
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
            tell(caller, &entry);
            Ok(Commit::Done(entry))
        }
        Err(WriteError::Conflict { cause: Cause::Fence, .. }) => Err(stale(caller, &key)),
        Err(WriteError::Conflict { index, .. }) => Ok(Commit::Conflict { own: index == 0 }),
        Err(other) => Err(crate::errors::write(&other)),
    }
}

/// The write under the caller's claim, if it has one: a second compare of the same commit, since whatever this server has read of the
/// Assignment may be old.
fn fenced(caller: &Caller, append: Append) -> Result<Append, Status> {
    let Some(claim) = &caller.fence else { return Ok(append) };
    let row = resource("oarlock.dev", "v1", "assignments");
    let key = row.and_then(|row| oarlock_registry::key::key(row, "", &claim.unit));
    let key = key.ok_or_else(|| Status::internal_error("the schema has no assignments"))?;
    Ok(append.fenced(Fence { key, at: claim.epoch }))
}

/// Lets the log say what was written under a claim (`--log oarlock_apiserver::fence=debug`), so that others can judge whether it was valid then; and what was
/// refused for it.
fn tell(caller: &Caller, entry: &Entry) {
    if let Some(claim) = &caller.fence {
        let (unit, epoch, revision) = (&claim.unit, claim.epoch, entry.revision);
        tracing::debug!(target: "oarlock_apiserver::fence", %unit, %epoch, key = %entry.key, %revision, "written under a claim");
    }
}

fn stale(caller: &Caller, key: &Key) -> Status {
    match &caller.fence {
        Some(claim) => {
            tracing::debug!(target: "oarlock_apiserver::fence", unit = %claim.unit, epoch = %claim.epoch, %key, "refused: the claim has gone");
            Status::stale_owner(&GroupResource::new("oarlock.dev", "assignments"), &claim.unit, claim)
        }
        None => Status::internal_error("a write without a claim was refused for its claim"),
    }
}

/// Refuses an object with errors.
///
/// # Errors
/// 422 with every error as a cause.
pub(crate) fn check(target: &Target<'_>, name: &str, errors: &oarlock_meta::ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&target.group_kind(), name, errors.as_slice()))
}

/// The present, as RFC 3339 seconds.
#[must_use]
pub(crate) fn now_text() -> String {
    oarlock_meta::Time::from_unix(oarlock_runtime::clock::wall().as_second()).to_string()
}

/// Warnings of an object go to the caller.
pub(crate) fn warn(caller: &Caller, obj: &Obj) {
    for text in oarlock_apis::warnings(obj) {
        caller.warn(text);
    }
}

/// How often admission decides again because something committed together with the object changed meanwhile.
/// Turns leave one contender per server, so that so many losses in a row do not happen by chance.
pub(crate) const COMPANION_RETRIES: usize = 64;

//! Replaces an object (PUT), and the loop of every change of an object: read, change, check, compare-and-swap.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::WriteOptions;
use oarlock_meta::{Revision, Status};
use oarlock_registry::kind::Request;
use oarlock_registry::{delete, index, prepare, stored};
use oarlock_schema::Obj;
use oarlock_storage::Append;
use oarlock_store::Entry;

use super::create;
use crate::caller::Caller;
use crate::change::{Change, expected};
use crate::identity;
use crate::ownership;
use crate::pipeline::{self, Attempt, Commit, Encoded, Shown, Source};
use crate::server::Server;
use crate::target::Target;

/// How often a change without a resourceVersion is retried on newer state.
const CONFLICT_RETRIES: usize = 100;

/// The outcome of a change.
#[derive(Debug)]
pub enum Updated {
    /// The object has been changed, or needed no change.
    Changed(Arc<Entry>),
    /// The object has been removed, because the change took its last finalizer away; its last state.
    Removed(Arc<Entry>),
}

impl Updated {
    /// Returns the object after the change.
    #[must_use]
    pub fn entry(self) -> Arc<Entry> {
        match self {
            Self::Changed(entry) | Self::Removed(entry) => entry,
        }
    }
}

/// Replaces an object; creates a missing one if the kind allows that. The flag says whether the object was created.
///
/// # Errors
/// 400, 404, 409, 422, and the error of an admission stage.
pub async fn update(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    obj: Obj,
    options: &WriteOptions,
) -> Result<(Arc<Entry>, bool), Status> {
    let mut obj = target.to_stored(obj)?;
    identity::fit_namespace(target, &mut obj)?;
    identity::check_name(target, &obj)?;
    oarlock_apis::default(&mut obj);
    let key = target.key(target.name)?;
    if server.view().get(&key).is_none() && target.resource().create_on_update && target.subresource.is_empty() {
        identity::check_uid(target, &key, obj.meta().uid(), "")?;
        server.authorize_resource(caller, "create", target)?;
        if let Some(mut meta) = obj.meta_mut() {
            meta.clear_resource_version();
        }
        return Ok((create::create(server, caller, target, obj, options).await?, true));
    }
    let mut change = |old: &Obj, _: Revision| -> Result<Change, Status> {
        identity::check_uid(target, &key, obj.meta().uid(), old.meta().uid())?;
        Ok(Change::asked(obj.clone(), expected(target, &obj)?))
    };
    Ok((modify(server, caller, target, options, &mut change).await?.entry(), false))
}

/// Changes the named object by a function of its stored state. After a conflict the function runs again on newer state, unless the change names a
/// revision.
///
/// # Errors
/// 404; 409 when the named revision is not the stored one; 422; the errors of `change` and of the admission stages.
pub async fn modify(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    change: &mut (dyn FnMut(&Obj, Revision) -> Result<Change, Status> + Send),
) -> Result<Updated, Status> {
    let key = target.key(target.name)?;
    for _ in 0..CONFLICT_RETRIES {
        let entry = server.current(&key).await?.ok_or_else(|| target.not_found())?;
        let old = target.decode(&entry)?;
        let Change { obj, expect, managed, trusted } = change(&old, entry.revision)?;
        if expect.is_some_and(|revision| revision != entry.revision) {
            return Err(modified(target));
        }
        let attempt = Attempt {
            object: Some(obj),
            old: Some(&old),
            shown: if trusted { Shown::NotAgain } else { Shown::of(target) },
            ..Attempt::new(server, caller, target, Operation::Update, options.dry_run)
        };
        let source = UpdateSource { entry: &entry, options, expect, managed, trusted, last: None };
        if let Some(updated) = pipeline::run(attempt, source).await? {
            return Ok(updated);
        }
    }
    Err(Status::server_timeout(&target.resource().group_resource(), "update", 1))
}

fn modified(target: &Target<'_>) -> Status {
    Status::conflict_modified(&target.resource().group_resource(), target.name)
}

/// The source of the pipeline for a change of an object.
struct UpdateSource<'a> {
    /// The stored object.
    entry: &'a Arc<Entry>,
    options: &'a WriteOptions,
    expect: Option<Revision>,
    managed: bool,
    trusted: bool,
    /// The last state of the object, when the change removes it.
    last: Option<Arc<Entry>>,
}

impl Source for UpdateSource<'_> {
    /// `None` when the stored object has changed meanwhile.
    type Outcome = Option<Updated>;

    fn removes(&self, attempt: &Attempt<'_>) -> bool {
        attempt.object.as_ref().is_some_and(|obj| delete::is_finished(attempt.target.kind, obj))
    }

    fn own(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        match (&mut attempt.object, attempt.old) {
            (Some(obj), Some(old)) if !self.managed => {
                ownership::on_update(attempt.caller, attempt.target, self.options, obj, old)
            }
            _ => Ok(()),
        }
    }

    fn prepare(&mut self, request: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        match (&mut attempt.object, attempt.old) {
            (Some(obj), Some(old)) if self.trusted => prepare::keep_metadata(obj, old),
            (Some(obj), Some(old)) => prepare::before_update(attempt.target.kind, request, obj, old),
            _ => {}
        }
        Ok(())
    }

    fn validate(&mut self, request: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let (Some(obj), Some(old), false) = (&attempt.object, attempt.old, self.trusted) else { return Ok(()) };
        let target = attempt.target;
        let mut errors = oarlock_apis::validate_change(target.resource(), target.subresource, obj, old);
        target.kind.strategy.validate(request, obj, Some(old), &mut errors);
        target.check(target.name, &errors)
    }

    fn encode(&mut self, attempt: &mut Attempt<'_>) -> Result<Option<Encoded>, Status> {
        let (key, revision) = (&self.entry.key, self.entry.revision);
        let removes = self.removes(attempt);
        let (Some(obj), Some(old)) = (&mut attempt.object, attempt.old) else { return Ok(None) };
        if removes {
            let parts = index::parts(key, obj, None);
            // The answer is the result of the change, at the revision on which the change was based.
            let last = stored::encode(key, obj);
            self.last = Some(Arc::new(Entry::new(key.clone(), &last.value, revision, last.parts)));
            let generation = obj.meta().generation();
            return Ok(Some(Encoded { append: Append::delete(key.clone(), revision), parts, generation }));
        }
        let encoded = stored::encode(key, obj);
        if attempt.context.together.is_empty() && ownership::is_same(obj, old) {
            return Ok(None);
        }
        let append = Append::update(key.clone(), revision, encoded.value);
        Ok(Some(Encoded { append, parts: encoded.parts, generation: obj.meta().generation() }))
    }

    async fn finish(self, attempt: Attempt<'_>, committed: Option<Commit>) -> Result<Option<Updated>, Status> {
        match (committed, self.last) {
            (None, _) => {
                let newest = attempt.server.is_newest(self.entry, attempt.caller.deadline).await?;
                Ok(newest.then(|| Updated::Changed(Arc::clone(self.entry))))
            }
            (Some(Commit::Done(_)), Some(last)) => Ok(Some(Updated::Removed(last))),
            (Some(Commit::Done(entry)), None) => Ok(Some(Updated::Changed(entry))),
            (Some(Commit::Conflict), _) if self.expect.is_some() => Err(modified(attempt.target)),
            (Some(Commit::Conflict), _) => Ok(None),
        }
    }
}

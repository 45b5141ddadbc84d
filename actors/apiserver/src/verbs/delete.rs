//! Deletes one object: DELETE of a named object.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::DeleteOptions;
use oarlock_meta::{Status, Time};
use oarlock_registry::delete::{self, Now, Plan};
use oarlock_registry::kind::Request;
use oarlock_registry::{index, stored};
use oarlock_runtime::clock;
use oarlock_storage::Append;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::pipeline::{self, Attempt, Commit, Encoded, Shown, Source};
use crate::server::Server;
use crate::target::Target;

/// How often a deletion is retried on newer state.
const CONFLICT_RETRIES: usize = 100;

/// The outcome of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// The object has been removed; its last state.
    Removed(Arc<Entry>),
    /// The object waits for its grace period, finalizers or dependents.
    Pending(Arc<Entry>),
}

/// Deletes an object, or starts its deletion.
///
/// # Errors
/// 404, 409 when a precondition does not hold, and the error of an admission stage.
pub async fn delete(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    delete_object(server, caller, target, options, Shown::AsItIs).await
}

/// Deletes an object for a request that the admission stages have judged in another form (an Eviction); they do not see the deletion.
///
/// # Errors
/// 404, 409 when a precondition does not hold.
pub(crate) async fn delete_admitted(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    delete_object(server, caller, target, options, Shown::NotAgain).await
}

async fn delete_object(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &DeleteOptions,
    shown: Shown,
) -> Result<Deleted, Status> {
    warn(caller, target, options);
    let key = target.key(target.name)?;
    for _ in 0..CONFLICT_RETRIES {
        let entry = server.current(&key).await?.ok_or_else(|| target.not_found())?;
        let old = target.decode(&entry)?;
        let attempt = Attempt {
            old: Some(&old),
            shown,
            ..Attempt::new(server, caller, target, Operation::Delete, options.dry_run)
        };
        let source = DeleteSource { entry: &entry, options, plan: Plan::Pending };
        if let Some(deleted) = pipeline::run(attempt, source).await? {
            return Ok(deleted);
        }
    }
    Err(Status::server_timeout(&target.resource().group_resource(), "delete", 1))
}

/// The source of the pipeline for a deletion.
struct DeleteSource<'a> {
    /// The stored object.
    entry: &'a Arc<Entry>,
    options: &'a DeleteOptions,
    plan: Plan,
}

impl Source for DeleteSource<'_> {
    /// `None` when the stored object has changed meanwhile.
    type Outcome = Option<Deleted>;

    fn removes(&self, _: &Attempt<'_>) -> bool {
        self.plan == Plan::Remove
    }

    /// As upstream, the effect of the deletion and its preconditions are decided before admission.
    fn prepare(&mut self, _: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let Some(old) = attempt.old else { return Ok(()) };
        let now = Now { unix: clock::wall().as_second(), format: |unix| Time::from_unix(unix).to_string() };
        self.plan = delete::plan(attempt.target.kind, old, self.entry.revision.get(), self.options, now)?;
        Ok(())
    }

    fn encode(&mut self, attempt: &mut Attempt<'_>) -> Result<Option<Encoded>, Status> {
        let (key, revision) = (&self.entry.key, self.entry.revision);
        Ok(match (&mut self.plan, attempt.old) {
            (Plan::Remove, Some(old)) if !attempt.context.dry_run => {
                let (append, parts) = (Append::delete(key.clone(), revision), index::parts(key, old, None));
                Some(Encoded { append, parts, generation: old.meta().generation() })
            }
            (Plan::Mark(marked), _) => {
                let encoded = stored::encode(key, marked);
                let append = Append::update(key.clone(), revision, encoded.value);
                Some(Encoded { append, parts: encoded.parts, generation: marked.meta().generation() })
            }
            _ => None,
        })
    }

    async fn finish(self, attempt: Attempt<'_>, committed: Option<Commit>) -> Result<Option<Deleted>, Status> {
        let entry = match committed {
            Some(commit) => commit.done(),
            None if self.plan == Plan::Remove => Some(Arc::clone(self.entry)),
            None => {
                let newest = attempt.server.is_newest(self.entry, attempt.caller.deadline).await?;
                newest.then(|| Arc::clone(self.entry))
            }
        };
        Ok(entry.map(if self.plan == Plan::Remove { Deleted::Removed } else { Deleted::Pending }))
    }
}

/// Warns about kinds whose deletion treats dependents in an unexpected way.
pub(super) fn warn(caller: &Caller, target: &Target<'_>, options: &DeleteOptions) {
    let warning = target.kind.strategy.default_propagation_warning();
    if let Some(warning) = warning.filter(|_| options.propagation.is_none()) {
        caller.warn(warning.to_owned());
    }
}

//! DELETE of one object.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::DeleteOptions;
use oarlock_meta::{Status, Time};
use oarlock_registry::delete::{self, Now, Plan};
use oarlock_runtime::clock;
use oarlock_storage::Append;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::rights::OwnRights;
use crate::server::Server;
use crate::stages::{self, Commit};
use crate::target::Target;

const RETRIES: usize = 100;

/// What a deletion came to.
#[derive(Debug)]
pub enum Deleted {
    /// The object is gone; its last state.
    Gone(Arc<Entry>),
    /// The object waits for its grace period, finalizers or dependents.
    Pending(Arc<Entry>),
}

/// Deletes an object or starts its deletion.
///
/// # Errors
/// 404, 409 when a precondition does not hold, whatever admission says.
pub async fn delete(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    delete_object(server, caller, target, options, false).await
}

/// Deletes an object for a request that the admission stages have seen in another form (an Eviction); they do not see the deletion.
///
/// # Errors
/// 404, 409 when a precondition does not hold.
pub(crate) async fn delete_admitted(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    delete_object(server, caller, target, options, true).await
}

async fn delete_object(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &DeleteOptions,
    admitted: bool,
) -> Result<Deleted, Status> {
    warn(caller, target, options);
    let key = target.key(target.name)?;
    let rights = OwnRights { server, caller };
    for _ in 0..RETRIES {
        let entry = server.current(&key).await?.ok_or_else(|| target.not_found())?;
        let obj = target.decode(&entry)?;
        let mut attributes = stages::attributes(&rights, Operation::Delete, target, None, Some(&obj), options.dry_run);
        if !admitted {
            server.admission().admit(&mut attributes).await?;
            stages::validate(server, caller, &mut attributes).await?;
        }
        let mut together = attributes.together;
        let now = Now { unix: clock::wall().as_second(), format: |unix| Time::from_unix(unix).to_string() };
        let committed = match delete::plan(target.kind, &obj, entry.revision.get(), options, now)? {
            Plan::Pending => server.is_newest(&entry, caller.deadline).await?.then_some(Deleted::Pending(entry)),
            Plan::Remove => {
                let _turn = crate::allocate::turn(server, target, None, Some(&obj)).await;
                together.extend(crate::allocate::on_delete(server, target, &obj));
                let parts = oarlock_registry::index::parts(&key, &obj, None);
                let append = Append::delete(key.clone(), entry.revision);
                if options.dry_run {
                    return Ok(Deleted::Gone(entry));
                }
                stages::commit(server, caller, append, parts, together, false).await?.done().map(Deleted::Gone)
            }
            Plan::Mark(mut marked) => {
                let encoded = stages::encode(&key, &mut marked);
                let append = Append::update(key.clone(), entry.revision, encoded.value);
                let commit = stages::commit(server, caller, append, encoded.parts, together, options.dry_run).await?;
                commit.done().map(Deleted::Pending)
            }
        };
        if let Some(deleted) = committed {
            return Ok(deleted);
        }
    }
    Err(Status::server_timeout(&target.resource().group_resource(), "delete", 1))
}

/// Some kinds do with dependents what few expect.
pub(super) fn warn(caller: &Caller, target: &Target<'_>, options: &DeleteOptions) {
    let warning = target.kind.strategy.default_propagation_warning();
    if let Some(warning) = warning.filter(|_| options.propagation.is_none()) {
        caller.warn(warning.to_owned());
    }
}

impl Commit {
    /// The entry of a commit that went through.
    #[must_use]
    pub(crate) fn done(self) -> Option<Arc<Entry>> {
        match self {
            Self::Done(entry) => Some(entry),
            Self::Conflict { .. } => None,
        }
    }
}

//! PUT, and the loop under every change of an object: read, change, check, compare-and-swap.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::WriteOptions;
use oarlock_meta::{FieldError, GroupKind, Path, Revision, Status, revision};
use oarlock_registry::{delete, prepare};
use oarlock_schema::Obj;
use oarlock_storage::{Append, Key};
use oarlock_store::Entry;

use super::create;
use crate::admission::{Admission, Form};
use crate::caller::Caller;
use crate::ownership;
use crate::rights::OwnRights;
use crate::server::Server;
use crate::stages::{self, Commit};
use crate::target::Target;

/// How often a change that carries no resourceVersion is tried on newer state.
const RETRIES: usize = 100;

/// What a change makes of the stored object.
#[derive(Debug)]
pub struct Change {
    /// The object as the request wants it, in the stored type.
    pub obj: Obj,
    /// Only if the stored object still has this revision.
    pub expect: Option<Revision>,
    /// managedFields are already as they should be (apply).
    pub managed: bool,
    /// The server made the change by rules of its own (binding, eviction): rules about what clients may change do not apply. The admission stages have seen
    /// the request itself (a Binding, an Eviction), and do not see the change of the object.
    pub trusted: bool,
}

impl Change {
    /// A change that a client asked for.
    #[must_use]
    pub fn asked(obj: Obj, expect: Option<Revision>) -> Self {
        Self { obj, expect, managed: false, trusted: false }
    }

    /// A change that the server makes itself.
    #[must_use]
    pub fn own(obj: Obj) -> Self {
        Self { obj, expect: None, managed: true, trusted: true }
    }
}

/// What happened to the object.
#[derive(Debug)]
pub enum Updated {
    /// It was changed, or was already so.
    Changed(Arc<Entry>),
    /// The change removed its last finalizer, so it is gone; its last state.
    Gone(Arc<Entry>),
}

impl Updated {
    /// The object after the change.
    #[must_use]
    pub fn entry(self) -> Arc<Entry> {
        match self {
            Self::Changed(entry) | Self::Gone(entry) => entry,
        }
    }
}

/// Replaces an object; creates it where the kind allows that. The flag says that it was created.
///
/// # Errors
/// 400, 404, 409, 422, whatever admission says.
pub async fn update(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    obj: Obj,
    options: &WriteOptions,
) -> Result<(Arc<Entry>, bool), Status> {
    let mut obj = target.to_stored(obj)?;
    create::fit_namespace(target, &mut obj)?;
    check_name(target, &obj)?;
    oarlock_apis::default(&mut obj);
    let key = target.key(target.name)?;
    if server.view().get(&key).is_none() && target.resource().create_on_update && target.subresource.is_empty() {
        check_uid(target, &key, obj.meta().uid(), "")?;
        server.authorize_resource(caller, "create", target)?;
        if let Some(mut meta) = obj.meta_mut() {
            meta.clear_resource_version();
        }
        return Ok((create::create(server, caller, target, obj, options).await?, true));
    }
    let mut change = |old: &Obj, _: Revision| -> Result<Change, Status> {
        check_uid(target, &key, obj.meta().uid(), old.meta().uid())?;
        Ok(Change::asked(obj.clone(), expected(target, &obj)?))
    };
    Ok((modify(server, caller, target, options, &mut change).await?.entry(), false))
}

/// Changes the named object by a function of its stored state, again on newer state after a conflict unless the change names a revision.
///
/// # Errors
/// 404; 409 when the named revision is not the stored one; 422; what `change` and admission say.
pub async fn modify(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    change: &mut (dyn FnMut(&Obj, Revision) -> Result<Change, Status> + Send),
) -> Result<Updated, Status> {
    let key = target.key(target.name)?;
    let resource = target.resource();
    let rights = OwnRights { server, caller };
    for _ in 0..RETRIES {
        let entry = server.current(&key).await?.ok_or_else(|| target.not_found())?;
        let old = target.decode(&entry)?;
        let Change { mut obj, expect, managed, trusted } = change(&old, entry.revision)?;
        if expect.is_some_and(|revision| revision != entry.revision) {
            return Err(Status::conflict_modified(&resource.group_resource(), target.name));
        }
        if !managed {
            ownership::on_update(caller, target, options, &mut obj, &old)?;
        }
        let form = Form::of(target);
        let seen_before = form.map(|form| (form.read)(&old)).transpose()?;
        let before = seen_before.as_ref().unwrap_or(&old);
        if !trusted {
            let admission =
                Admission { server, caller, target, operation: Operation::Update, dry_run: options.dry_run };
            match form {
                None => admission.admit(Some(&mut obj), Some(before)).await?,
                Some(form) => {
                    let mut seen = (form.read)(&obj)?;
                    admission.admit(Some(&mut seen), Some(before)).await?;
                    (form.write)(&seen, &mut obj);
                }
            }
        }
        let now = stages::now_text();
        let request = stages::request(caller, target, &now);
        if trusted {
            prepare::keep_metadata(&mut obj, &old);
        } else {
            prepare::before_update(target.kind, &request, &mut obj, &old);
        }
        server.disabled().drop(&mut obj, Some(&old));
        if !trusted {
            let mut errors = oarlock_apis::validate_change(resource, target.subresource, &obj, &old);
            target.kind.strategy.validate(&request, &obj, Some(&old), &mut errors);
            stages::check(target, target.name, &errors)?;
        }
        stages::warn(caller, &obj);
        crate::absent::warn(caller, target, &obj);
        crate::escalation::check(server, caller, target, &obj, Some(&old))?;
        let _turn = crate::allocate::turn(server, target, Some(&obj), Some(&old)).await;
        let companions = crate::allocate::on_update(server, target, &mut obj, &old)?;
        let mut seen = form.map(|form| (form.read)(&obj)).transpose()?;
        let object = Some(seen.as_mut().unwrap_or(&mut obj));
        let mut attributes =
            stages::attributes(&rights, Operation::Update, target, object, Some(before), options.dry_run);
        if !trusted {
            stages::validate(server, caller, &mut attributes).await?;
        }
        let mut together = attributes.together;
        together.extend(companions);
        if delete::is_finished(target.kind, &obj) {
            match stages::commit(
                server,
                caller,
                Append::delete(key.clone(), entry.revision),
                entry_parts(&key, &obj),
                together,
                options.dry_run,
            )
            .await?
            {
                // The answer is what the change made, at the revision it was made from.
                Commit::Done(_) => {
                    let last = stages::encode(&key, &mut obj);
                    return Ok(Updated::Gone(Arc::new(Entry::new(key, &last.value, entry.revision, last.parts))));
                }
                Commit::Conflict { .. } if expect.is_none() => continue,
                Commit::Conflict { .. } => {
                    return Err(Status::conflict_modified(&resource.group_resource(), target.name));
                }
            }
        }
        let encoded = stages::encode(&key, &mut obj);
        if together.is_empty() && ownership::is_same(&obj, &old) {
            if server.is_newest(&entry, caller.deadline).await? {
                return Ok(Updated::Changed(entry));
            }
            continue;
        }
        let append = Append::update(key.clone(), entry.revision, encoded.value);
        match stages::commit(server, caller, append, encoded.parts, together, options.dry_run).await? {
            Commit::Done(entry) => return Ok(Updated::Changed(entry)),
            Commit::Conflict { own: true, .. } if expect.is_some() => {
                return Err(Status::conflict_modified(&resource.group_resource(), target.name));
            }
            Commit::Conflict { .. } => {}
        }
    }
    Err(Status::server_timeout(&resource.group_resource(), "update", 1))
}

fn entry_parts(key: &oarlock_storage::Key, obj: &Obj) -> oarlock_store::EntryParts {
    oarlock_registry::index::parts(key, obj, None)
}

/// A uid in a body is a precondition. Upstream's store checks it, and its words come through.
pub(crate) fn check_uid(target: &Target<'_>, key: &Key, asked: &str, have: &str) -> Result<(), Status> {
    check_precondition(target, key, "UID", asked, have)
}

/// Compares the uid and resourceVersion that a body states with those of the stored object; what the body leaves out is not compared.
///
/// # Errors
/// 409 when the object has another one.
pub(crate) fn check_precondition(
    target: &Target<'_>,
    key: &Key,
    what: &str,
    asked: &str,
    have: &str,
) -> Result<(), Status> {
    if asked.is_empty() || asked == have {
        return Ok(());
    }
    Err(failed_precondition(target, key, what, asked, have))
}

/// 409: the object has another uid or revision than the request states.
pub(crate) fn failed_precondition(target: &Target<'_>, key: &Key, what: &str, asked: &str, have: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {what} in precondition: {asked}, {what} in object meta: {have}"
    );
    Status::conflict(&target.resource().group_resource(), target.name, why)
}

/// The revision that a body names; kinds that forbid unconditional updates insist on one.
///
/// # Errors
/// 500, as upstream has it, when it is no number; 422 when there must be one.
pub(crate) fn expected(target: &Target<'_>, obj: &Obj) -> Result<Option<Revision>, Status> {
    let text = obj.meta().resource_version();
    if text.is_empty() || text == "0" {
        let resource = target.resource();
        if resource.unconditional_update {
            return Ok(None);
        }
        let path = Path::new("metadata");
        let error = FieldError::invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
        // Upstream puts the resource where the kind belongs.
        return Err(Status::invalid(&GroupKind::new(resource.group, resource.plural), target.name, &[error]));
    }
    parse_revision(text).map(Some)
}

/// Parses a resourceVersion of a body.
///
/// # Errors
/// 500, as upstream has it, when it is no number.
pub fn parse_revision(text: &str) -> Result<Revision, Status> {
    text.parse().map_err(|_| Status::unexpected(revision::invalid_syntax(text)))
}

/// The object's name is the URL's.
///
/// # Errors
/// 400 when it is absent or another.
pub(crate) fn check_name(target: &Target<'_>, obj: &Obj) -> Result<(), Status> {
    let name = obj.meta().name();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}

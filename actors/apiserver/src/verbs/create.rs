//! POST to a collection.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::WriteOptions;
use oarlock_meta::{Status, names};
use oarlock_registry::prepare::{self, Stamp};
use oarlock_runtime::rng;
use oarlock_schema::Obj;
use oarlock_storage::Append;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::ownership;
use crate::server::Server;
use crate::stages::{self, Commit};
use crate::target::Target;

/// How often a generated name is drawn anew when it is taken (upstream: 8).
const NAME_RETRIES: usize = 8;

/// Creates an object and returns its entry.
///
/// # Errors
/// 400 for metadata that does not fit the URL, 409 when the name is taken, 422 for invalid objects, whatever admission says.
pub async fn create(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    obj: Obj,
    options: &WriteOptions,
) -> Result<Arc<Entry>, Status> {
    let mut obj = target.to_stored(obj)?;
    fit_namespace(target, &mut obj)?;
    // Upstream finds out in its storage, where a dry run never comes.
    if !options.dry_run && !obj.meta().resource_version().is_empty() {
        return Err(Status::internal_error("resourceVersion should not be set on objects to be created"));
    }
    oarlock_apis::default(&mut obj);
    ownership::on_create(caller, target, options, &mut obj);
    create_owned(server, caller, target, obj, options).await
}

/// Creates an object whose managedFields are as they should be (an applied one).
///
/// # Errors
/// As [`create`].
pub async fn create_applied(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    obj: Obj,
    options: &WriteOptions,
) -> Result<Arc<Entry>, Status> {
    let mut obj = target.to_stored(obj)?;
    fit_namespace(target, &mut obj)?;
    oarlock_apis::default(&mut obj);
    create_owned(server, caller, target, obj, options).await
}

async fn create_owned(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    obj: Obj,
    options: &WriteOptions,
) -> Result<Arc<Entry>, Status> {
    let generate = obj.meta().name().is_empty() && !obj.meta().generate_name().is_empty();
    let tries = if generate { NAME_RETRIES } else { stages::COMPANION_RETRIES };
    let mut last_name = String::new();
    let mut taken_last = false;
    for _ in 0..tries {
        let mut attempt = obj.clone();
        if generate {
            last_name = names::generate_name(obj.meta().generate_name(), &mut rng::u64);
            if let Some(mut meta) = attempt.meta_mut() {
                meta.set_name(last_name.as_str());
            }
        }
        match try_create(server, caller, target, attempt, options.dry_run).await? {
            Commit::Done(entry) => return Ok(entry),
            Commit::Conflict { own: true, .. } if !generate => return Err(taken(server, target, obj.name())),
            // A generated name was taken, or a companion (quota) changed: decide again.
            Commit::Conflict { own } => taken_last = own,
        }
    }
    let resource = target.resource().group_resource();
    Err(if generate && taken_last {
        Status::generate_name_conflict(&resource, &last_name, 1)
    } else {
        Status::server_timeout(&resource, "create", 1)
    })
}

async fn try_create(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    mut obj: Obj,
    dry_run: bool,
) -> Result<Commit, Status> {
    let mut attributes = stages::attributes(Operation::Create, caller, target, Some(&mut obj), None, dry_run);
    server.admission().admit(&mut attributes).await?;
    let stamp = Stamp { uid: rng::uuid().to_string(), now: stages::now_text() };
    prepare::before_create(target.kind, &mut obj, &stamp);
    oarlock_apis::drop_disabled(&mut obj, None);
    stages::warn(caller, &obj);
    stages::check(target, obj.name(), &oarlock_apis::validate_create(target.resource(), &obj))?;
    crate::escalation::check(server, caller, target, &obj, None)?;
    let mut attributes = stages::attributes(Operation::Create, caller, target, Some(&mut obj), None, dry_run);
    let companions = crate::allocate::on_create(server, target, attributes.object.as_deref_mut())?;
    server.admission().validate(&mut attributes).await?;
    let mut together = attributes.together;
    together.extend(companions);
    let key = target.key(obj.name())?;
    if dry_run && server.view().get(&key).is_some() {
        return Ok(Commit::Conflict { own: true });
    }
    let encoded = stages::encode(&key, &mut obj);
    stages::commit(server, caller, Append::create(key, encoded.value), encoded.parts, together, dry_run).await
}

/// The object's namespace is the URL's, or absent and then becomes it.
///
/// # Errors
/// 400 when they differ.
pub fn fit_namespace(target: &Target<'_>, obj: &mut Obj) -> Result<(), Status> {
    let namespace = obj.meta().namespace();
    if !target.resource().namespaced {
        if let Some(mut meta) = obj.meta_mut() {
            meta.clear_namespace();
        }
        return Ok(());
    }
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_namespace(target.namespace);
    }
    Ok(())
}

fn taken(server: &Server, target: &Target<'_>, name: &str) -> Status {
    let resource = target.resource().group_resource();
    let mut status = Status::already_exists(&resource, name);
    let deleting = target.key(name).ok().and_then(|key| server.view().get(&key)).is_some_and(|entry| entry.deletion);
    if deleting {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

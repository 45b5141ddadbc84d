//! POST to a collection.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::WriteOptions;
use oarlock_meta::{Revision, Status, names};
use oarlock_registry::prepare;
use oarlock_runtime::rng;
use oarlock_schema::Obj;
use oarlock_storage::Append;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::ownership;
use crate::rights::OwnRights;
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
    forget_system_fields(&mut obj);
    oarlock_apis::default(&mut obj);
    ownership::on_create(caller, target, options, &mut obj)?;
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
    // As upstream, an apply that creates an object does not compare the resourceVersion that its body states.
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_resource_version();
    }
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
    let may_generate = obj.meta().name().is_empty() && !obj.meta().generate_name().is_empty();
    let tries = if may_generate { NAME_RETRIES } else { stages::COMPANION_RETRIES };
    let mut taken_name = None;
    for _ in 0..tries {
        let mut attempt = obj.clone();
        let (generated, commit) = try_create(server, caller, target, &mut attempt, options.dry_run).await?;
        match commit {
            Commit::Done(entry) => return Ok(entry),
            Commit::Conflict { own: true, .. } if !generated => return Err(taken(server, target, attempt.name())),
            // A generated name was taken, or a companion (quota) changed: decide again.
            Commit::Conflict { own } => taken_name = own.then(|| attempt.name().to_owned()),
        }
    }
    let resource = target.resource().group_resource();
    Err(match taken_name {
        Some(name) => Status::generate_name_conflict(&resource, &name, 1),
        None => Status::server_timeout(&resource, "create", 1),
    })
}

/// One attempt; the flag says that it made up the object's name.
async fn try_create(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    obj: &mut Obj,
    dry_run: bool,
) -> Result<(bool, Commit), Status> {
    let rights = OwnRights { server, caller };
    let mut attributes = stages::attributes(&rights, Operation::Create, target, Some(&mut *obj), None, dry_run);
    server.admission().admit(&mut attributes).await?;
    let generated = generate_name(obj);
    let stated = obj.meta().resource_version().parse().unwrap_or(Revision::ZERO);
    let now = stages::now_text();
    let request = stages::request(caller, target, &now);
    prepare::before_create(target.kind, &request, &rng::uuid().to_string(), obj);
    server.disabled().drop(obj, None);
    let mut errors = oarlock_apis::validate_create(target.resource(), obj);
    target.kind.strategy.validate(&request, obj, None, &mut errors);
    stages::check(target, obj.name(), &errors)?;
    // What is refused is not warned of as well.
    oarlock_apis::name_warnings(obj).into_iter().for_each(|text| caller.warn(text));
    stages::warn(caller, obj);
    crate::absent::warn(caller, target, obj);
    crate::escalation::check(server, caller, target, obj, None)?;
    let mut attributes = stages::attributes(&rights, Operation::Create, target, Some(&mut *obj), None, dry_run);
    attributes.held.extend(crate::allocate::turn(server, target, attributes.object.as_deref(), None).await);
    let companions = crate::allocate::on_create(server, target, attributes.object.as_deref_mut(), dry_run)?;
    stages::validate(server, caller, &mut attributes).await?;
    let mut together = attributes.together;
    together.extend(companions);
    let key = target.key(obj.name())?;
    if dry_run && server.view().get(&key).is_some() {
        return Ok((generated, Commit::Conflict { own: true }));
    }
    let encoded = stages::encode(&key, obj);
    let append = match (dry_run, stated.is_zero()) {
        (_, true) => Append::create(key, encoded.value),
        // Upstream finds a stated revision in its store, where a dry run never comes: that one shows it.
        (true, false) => Append::update(key, stated, encoded.value),
        (false, false) => {
            return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
        }
    };
    Ok((generated, stages::commit(server, caller, append, encoded.parts, together, dry_run).await?))
}

/// Makes up the name of an object that has none but a `generateName`. This comes after mutating admission, which sees the object without one.
fn generate_name(obj: &mut Obj) -> bool {
    if !obj.meta().name().is_empty() || obj.meta().generate_name().is_empty() {
        return false;
    }
    let name = names::generate_name(obj.meta().generate_name(), &mut rng::u64);
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_name(name.as_str());
    }
    true
}

/// The object's namespace is the URL's, or absent and then becomes it.
///
/// # Errors
/// 400 when they differ.
pub fn fit_namespace(target: &Target<'_>, obj: &mut Obj) -> Result<(), Status> {
    check_namespace(target, obj)?;
    if !target.resource().namespaced {
        if let Some(mut meta) = obj.meta_mut() {
            meta.clear_namespace();
        }
        return Ok(());
    }
    if let Some(mut meta) = obj.meta_mut() {
        meta.set_namespace(target.namespace);
    }
    Ok(())
}

/// Checks that a body names no other namespace than the URL.
///
/// # Errors
/// 400 when they differ.
pub fn check_namespace(target: &Target<'_>, obj: &Obj) -> Result<(), Status> {
    let namespace = obj.meta().namespace();
    if !target.resource().namespaced || namespace.is_empty() || namespace == target.namespace {
        return Ok(());
    }
    Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

/// What only the server says of an object is dropped before anybody comes to own it (upstream: `rest.WipeObjectMetaSystemFields`).
pub(crate) fn forget_system_fields(obj: &mut Obj) {
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_uid().clear_creation_timestamp().clear_deletion_timestamp().clear_deletion_grace_period_seconds();
        meta.clear_self_link();
    }
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

#[cfg(test)]
mod tests {
    use super::generate_name;
    use oarlock_schema::{Obj, resource};

    #[test]
    fn only_an_object_without_a_name_gets_one() {
        for (name, base, generated) in [("", "web-", true), ("web", "web-", false), ("", "", false)] {
            let mut obj = Obj::new(resource("", "v1", "pods").unwrap().ty);
            obj.meta_mut().unwrap().set_name(name).set_generate_name(base);
            assert_eq!(generate_name(&mut obj), generated, "{name} {base}");
            assert_eq!(obj.name().len(), if generated { base.len() + 5 } else { name.len() });
        }
    }
}

//! Creates an object: POST to a collection.

use std::sync::{Arc, LazyLock};

use oarlock_admission::Operation;
use oarlock_client::WriteOptions;
use oarlock_meta::{Revision, Status, names};
use oarlock_registry::kind::Request;
use oarlock_registry::{key, prepare, stored};
use oarlock_runtime::rng;
use oarlock_schema::{Obj, resource};
use oarlock_storage::Append;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::pipeline::{self, Attempt, Commit, Encoded, Source};
use crate::server::Server;
use crate::target::Target;
use crate::{allocate, identity, ownership};

/// How often a new name is generated when the previous one is taken (upstream: 8).
const NAME_RETRIES: usize = 8;

/// How often a creation is retried because an object that is committed together with it (a quota, the node port allocation) has changed. Turns leave
/// one contender per server, so that so many lost races in a row are no coincidence.
const COMPANION_RETRIES: usize = 64;

/// Prefix of the keys of quotas.
static QUOTAS: LazyLock<Option<&'static str>> =
    LazyLock::new(|| resource("", "v1", "resourcequotas").and_then(key::prefix));

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
    identity::fit_namespace(target, &mut obj)?;
    identity::forget_system_fields(&mut obj);
    oarlock_apis::default(&mut obj);
    let request = CreateRequest { server, caller, target, options, managed: false };
    request.create(obj).await
}

/// Creates an object whose managedFields are already up to date (an applied one).
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
    identity::fit_namespace(target, &mut obj)?;
    // As upstream, an apply that creates an object ignores the resourceVersion in its body.
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_resource_version();
    }
    oarlock_apis::default(&mut obj);
    let request = CreateRequest { server, caller, target, options, managed: true };
    request.create(obj).await
}

/// A request to create an object.
#[derive(Clone, Copy)]
struct CreateRequest<'a> {
    server: &'a Server,
    caller: &'a Caller,
    target: &'a Target<'a>,
    options: &'a WriteOptions,
    /// Whether `managedFields` are already up to date.
    managed: bool,
}

impl CreateRequest<'_> {
    async fn create(&self, obj: Obj) -> Result<Arc<Entry>, Status> {
        let Self { server, caller, target, options, managed } = *self;
        let may_generate = obj.meta().name().is_empty() && !obj.meta().generate_name().is_empty();
        let tries = if may_generate { NAME_RETRIES } else { COMPANION_RETRIES };
        let repeats = may_generate || self.has_companions();
        let (mut kept, mut taken_name) = (Some(obj), None);
        for _ in 0..tries {
            let object = if repeats { kept.clone() } else { kept.take() };
            if object.is_none() {
                break;
            }
            let attempt =
                Attempt { object, ..Attempt::new(server, caller, target, Operation::Create, options.dry_run) };
            let source = CreateSource { options, managed, generated: false, stated: Revision::ZERO };
            taken_name = match pipeline::run(attempt, source).await? {
                Created::Done(entry) => return Ok(entry),
                Created::Taken { name, generated: false } => return Err(taken(server, target, &name)),
                // The generated name was taken, or a companion (quota) has changed: try again.
                Created::Taken { name, generated: true } => Some(name),
                Created::CompanionChanged => None,
            };
        }
        let resource = target.resource().group_resource();
        Err(match taken_name {
            Some(name) => Status::generate_name_conflict(&resource, &name, 1),
            None => Status::server_timeout(&resource, "create", 1),
        })
    }

    /// Whether objects may be committed together with the new one, as far as this server knows: the allocations of a Service, or quotas. A change of theirs makes another attempt necessary,
    /// for which the object must be kept. To copy every object would cost half of what admission costs.
    fn has_companions(&self) -> bool {
        let quotas = QUOTAS.is_some_and(|prefix| !self.server.view().list(prefix).is_empty());
        quotas || allocate::is_service(self.target)
    }
}

/// The source of the pipeline for a new object.
struct CreateSource<'a> {
    options: &'a WriteOptions,
    managed: bool,
    /// Whether the server generated the object's name.
    generated: bool,
    /// The resourceVersion that the body states.
    stated: Revision,
}

/// The outcome of one attempt to create an object.
enum Created {
    Done(Arc<Entry>),
    /// An object of this name exists.
    Taken {
        name: String,
        generated: bool,
    },
    /// A companion, an object that would have been committed together with the new one, has changed.
    CompanionChanged,
}

impl Source for CreateSource<'_> {
    type Outcome = Created;

    fn own(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        match &mut attempt.object {
            Some(obj) if !self.managed => ownership::on_create(attempt.caller, attempt.target, self.options, obj),
            _ => Ok(()),
        }
    }

    /// The object has no name while admission sees it.
    fn generate_name(&mut self, attempt: &mut Attempt<'_>) {
        self.generated = attempt.object.as_mut().is_some_and(generate_name);
    }

    fn prepare(&mut self, request: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if let Some(obj) = &mut attempt.object {
            self.stated = obj.meta().resource_version().parse().unwrap_or(Revision::ZERO);
            prepare::before_create(attempt.target.kind, request, &rng::uid().to_string(), obj);
        }
        Ok(())
    }

    fn validate(&mut self, request: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let Some(obj) = &attempt.object else { return Ok(()) };
        let target = attempt.target;
        let mut errors = oarlock_apis::validate_create(target.resource(), obj);
        target.kind.strategy.validate(request, obj, None, &mut errors);
        target.check(obj.name(), &errors)
    }

    fn encode(&mut self, attempt: &mut Attempt<'_>) -> Result<Option<Encoded>, Status> {
        let Some(obj) = &mut attempt.object else { return Ok(None) };
        let key = attempt.target.key(obj.name())?;
        let dry_run = attempt.context.dry_run;
        if dry_run && attempt.server.view().get(&key).is_some() {
            return Ok(None);
        }
        let encoded = stored::encode(&key, obj);
        let append = match (dry_run, self.stated.is_zero()) {
            (_, true) => Append::create(key, encoded.value),
            // Upstream's store refuses a stated revision, but a dry run does not reach the store and shows the revision in its answer.
            (true, false) => Append::update(key, self.stated, encoded.value),
            (false, false) => {
                return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
            }
        };
        Ok(Some(Encoded { append, parts: encoded.parts, generation: obj.meta().generation() }))
    }

    async fn commit(self, mut attempt: Attempt<'_>, write: Option<Encoded>) -> Result<Created, Status> {
        let own = match write {
            Some(write) => match pipeline::commit(&mut attempt, write).await? {
                Commit::Done(entry) => return Ok(Created::Done(entry)),
                Commit::Conflict { own } => own,
            },
            // A dry run has found the name to be taken.
            None => true,
        };
        let name = attempt.object.as_ref().map_or("", Obj::name).to_owned();
        Ok(if own { Created::Taken { name, generated: self.generated } } else { Created::CompanionChanged })
    }
}

/// Generates the name of an object that has no name but a `generateName`.
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

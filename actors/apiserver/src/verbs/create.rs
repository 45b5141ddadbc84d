//! Creates an object: POST to a collection.

use std::sync::Arc;

use oarlock_admission::Operation;
use oarlock_client::WriteOptions;
use oarlock_meta::{Revision, Status, names};
use oarlock_registry::kind::Request;
use oarlock_registry::{prepare, stored};
use oarlock_runtime::rng;
use oarlock_schema::Obj;
use oarlock_storage::Append;
use oarlock_store::Entry;

use crate::caller::Caller;
use crate::pipeline::{self, Attempt, Commit, Encoded, Source};
use crate::server::Server;
use crate::target::Target;
use crate::{identity, ownership};

/// How often a new name is generated when the previous one is taken (upstream: 8).
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
        let kept = may_generate.then(|| obj.clone());
        let (mut first, mut taken_name) = (Some(obj), String::new());
        for _ in 0..NAME_RETRIES {
            let Some(object) = first.take().or_else(|| kept.clone()) else { break };
            let object = Some(object);
            let attempt =
                Attempt { object, ..Attempt::new(server, caller, target, Operation::Create, options.dry_run) };
            let source = CreateSource { options, managed, generated: false, stated: Revision::ZERO };
            taken_name = match pipeline::run(attempt, source).await? {
                Created::Done(entry) => return Ok(entry),
                Created::Taken { name, generated: false } => return Err(taken(server, target, &name)),
                Created::Taken { name, generated: true } => name,
            };
        }
        Err(Status::generate_name_conflict(&target.resource().group_resource(), &taken_name, 1))
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

    /// A dry run that finds the name taken has no write to commit.
    async fn finish(self, attempt: Attempt<'_>, committed: Option<Commit>) -> Result<Created, Status> {
        Ok(match committed.and_then(Commit::done) {
            Some(entry) => Created::Done(entry),
            None => {
                let name = attempt.object.as_ref().map_or("", Obj::name).to_owned();
                Created::Taken { name, generated: self.generated }
            }
        })
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

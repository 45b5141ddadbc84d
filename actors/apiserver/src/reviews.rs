//! Resources that are answered but not stored: token reviews, access reviews, component statuses, actors, and Bindings posted to their collection.

mod access;
mod actors;
mod components;
mod selectors;
mod token;

use oarlock_admission::Operation;
use oarlock_client::{Call, Reply, WriteOptions};
use oarlock_meta::Status;
use oarlock_registry::kind::Request;
use oarlock_schema::Obj;

use crate::caller::Caller;
use crate::identity;
use crate::ownership;
use crate::pipeline::{self, Attempt, Commit, Source};
use crate::server::Server;
use crate::subresources::binding;
use crate::target::Target;

/// Answers a call on a resource that is not stored.
///
/// # Errors
/// The Status with which the call is answered.
pub(crate) async fn answer(server: &Server, caller: &Caller, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
    let resource = target.resource();
    match (resource.plural, call) {
        ("bindings", Call::Create(mut obj, options)) => {
            identity::fit_namespace(target, &mut obj)?;
            let name = obj.meta().name().to_owned();
            if name.is_empty() {
                return Err(Status::bad_request("Name parameter required."));
            }
            if let Some(why) = oarlock_apis::rules::formats::path_segment(&name).first() {
                return Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}")));
            }
            let Some(pods) = oarlock_schema::resource("", "v1", "pods") else {
                return Err(Status::internal_error("no pods"));
            };
            identity::forget_system_fields(&mut obj);
            // The admission stages see the object that was posted: a Binding in the resource `bindings`.
            let named = Target { name: &name, ..*target };
            let attempt = Attempt::new(server, caller, &named, Operation::Create, options.dry_run);
            let attempt = Attempt { object: Some(obj), ..attempt };
            let pod = Target::new(pods, "binding", target.namespace, &name);
            pipeline::run(attempt, binding::PostedBinding { pod, options: &options }).await
        }
        (_, Call::Create(mut obj, options)) => {
            // A review passes the same stages as a new object, up to the commit.
            identity::fit_namespace(target, &mut obj)?;
            identity::forget_system_fields(&mut obj);
            oarlock_apis::default(&mut obj);
            let attempt = Attempt::new(server, caller, target, Operation::Create, options.dry_run);
            let attempt = Attempt { object: Some(obj), ..attempt };
            pipeline::run(attempt, Review { options: &options, answer: None }).await
        }
        ("componentstatuses", Call::List(options)) => components::list(server, target, &options),
        ("componentstatuses", Call::Get(_)) => components::get(server, target),
        ("actors", Call::List(options)) => actors::list(server, target, &options).await,
        ("actors", Call::Get(_)) => actors::get(server, target).await,
        (_, call) => Err(Status::method_not_supported(&resource.group_resource(), call.verb())),
    }
}

/// The source of the pipeline for a review.
struct Review<'a> {
    options: &'a WriteOptions,
    answer: Option<Reply>,
}

impl Source for Review<'_> {
    type Outcome = Reply;

    const STORED: bool = false;

    fn own(&mut self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let Some(obj) = &mut attempt.object else { return Ok(()) };
        ownership::on_create(attempt.caller, attempt.target, self.options, obj)
    }

    /// Validation errors of the review come before the verdict of the admission stages, as upstream has it: answering a review changes nothing.
    fn validate(&mut self, _: &Request<'_>, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        let (server, caller, target) = (attempt.server, attempt.caller, attempt.target);
        let Some(asked) = attempt.object.clone() else { return Ok(()) };
        let answer = match target.resource().plural {
            "tokenreviews" => token::review(server, asked),
            "selfsubjectreviews" => Ok(token::who_am_i(caller, &asked)),
            "subjectaccessreviews" => access::subject(server, asked, None),
            "localsubjectaccessreviews" => access::subject(server, asked, Some(target.namespace)),
            "selfsubjectaccessreviews" => access::own(server, caller, asked),
            "selfsubjectrulesreviews" => access::rules(server, caller, &asked),
            _ => Err(Status::method_not_supported(&target.resource().group_resource(), "create")),
        };
        self.answer = Some(answer?);
        Ok(())
    }

    async fn finish(self, _: Attempt<'_>, _: Option<Commit>) -> Result<Reply, Status> {
        self.answer.ok_or_else(|| Status::internal_error("a review without an answer"))
    }
}

/// Encodes a review with its answer in the wire form of an object.
fn answered(mut obj: Obj) -> Reply {
    oarlock_schema::canonical::canonicalize(&mut obj);
    crate::answers::answer(&obj, true)
}

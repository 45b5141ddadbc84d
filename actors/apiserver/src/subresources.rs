//! Subresources with behaviour of their own, one file each.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod scale;
pub(crate) mod token;

use oarlock_admission::Operation;
use oarlock_client::{Call, Reply, WriteOptions};
use oarlock_meta::Status;
use oarlock_schema::views::core_v1::PodMut;
use oarlock_schema::{Obj, Struct, Value, type_named};
use oarlock_seeded_bug::seeded_bug;

use crate::caller::Caller;
use crate::identity;
use crate::pipeline::{self, Attempt, Shown};
use crate::server::Server;
use crate::target::Target;

/// Executes a call on a subresource.
///
/// # Errors
/// The Status with which the call is answered.
pub(crate) async fn call(server: &Server, caller: &Caller, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
    match (target.subresource, call) {
        ("scale", call) => scale::call(server, caller, target, call).await,
        ("binding" | "eviction" | "token", Call::Create(obj, options)) => {
            post(server, caller, target, obj, &options).await
        }
        (_, call) => Err(Status::method_not_supported(&target.resource().group_resource(), call.verb())),
    }
}

/// Executes a POST to a subresource whose body is an object of its own. The body passes all stages of a new object, admission included (upstream:
/// `CreateNamedResource`).
async fn post(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    mut body: Obj,
    options: &WriteOptions,
) -> Result<Reply, Status> {
    // The uid of a Binding and of a TokenRequest is a precondition.
    if target.subresource == "eviction" {
        identity::forget_system_fields(&mut body);
    }
    identity::fit_namespace(target, &mut body)?;
    oarlock_apis::default(&mut body);
    let attempt = Attempt::new(server, caller, target, Operation::Create, options.dry_run);
    let attempt = Attempt { object: Some(body), ..attempt };
    match target.subresource {
        "binding" => pipeline::run(attempt, binding::PostedBinding { pod: *target, options }).await,
        "eviction" => pipeline::run(attempt, eviction::PostedEviction::new(options)).await,
        _ if seeded_bug!("token_without_admission") => {
            let attempt = Attempt { shown: Shown::NotAgain, ..attempt };
            pipeline::run(attempt, token::PostedTokenRequest::new(options)).await
        }
        _ => pipeline::run(attempt, token::PostedTokenRequest::new(options)).await,
    }
}

/// Sets a condition of a pod to true. The transition time becomes the current time unless the condition was already true.
pub(crate) fn condition(pod: &mut PodMut<'_>, kind: &str, reason: &str, message: &str) {
    let Some(ty) = type_named("core/v1.PodCondition") else { return };
    let text = |c: &Value, field: &str| c.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut condition = Struct::zero(ty);
    condition.set_name("type", kind);
    condition.set_name("status", "True");
    condition.set_name("reason", reason);
    condition.set_name("message", message);
    let mut status = pod.status_mut();
    let conditions = status.conditions_mut();
    let existing = conditions.iter_mut().find(|c| text(c, "type").as_deref() == Some(kind));
    let since = existing.as_ref().filter(|c| text(c, "status").as_deref() == Some("True"));
    let since = since.and_then(|c| text(c, "lastTransitionTime")).unwrap_or_else(crate::now::text);
    condition.set_name("lastTransitionTime", since);
    match existing {
        Some(slot) => *slot = Value::Struct(condition),
        None => conditions.push(Value::Struct(condition)),
    }
}

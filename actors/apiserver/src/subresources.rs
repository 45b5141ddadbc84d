//! Subresources that are more than another way to write the same object, one file each.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod scale;
pub(crate) mod token;

use oarlock_client::{Call, Reply};
use oarlock_meta::Status;
use oarlock_schema::views::core_v1::PodMut;
use oarlock_schema::{Struct, Value, type_named};

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Executes a call on a subresource.
///
/// # Errors
/// The Status with which the call is answered.
pub(crate) async fn call(server: &Server, caller: &Caller, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
    match (target.subresource, call) {
        ("scale", call) => scale::call(server, caller, target, call).await,
        ("binding", Call::Create(obj, options)) => binding::bind(server, caller, target, &obj, &options).await,
        ("eviction", Call::Create(obj, options)) => eviction::evict(server, caller, target, &obj, &options).await,
        ("token", Call::Create(obj, _)) => token::issue(server, caller, target, obj),
        (_, call) => Err(Status::method_not_supported(&target.resource().group_resource(), call.verb())),
    }
}

/// Makes a condition of a pod true, with the present as its time unless it was true already.
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
    let since = since.and_then(|c| text(c, "lastTransitionTime")).unwrap_or_else(crate::stages::now_text);
    condition.set_name("lastTransitionTime", since);
    match existing {
        Some(slot) => *slot = Value::Struct(condition),
        None => conditions.push(Value::Struct(condition)),
    }
}

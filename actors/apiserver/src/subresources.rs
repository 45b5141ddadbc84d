//! Subresources that are more than another way to write the same object, one file each.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod scale;
pub(crate) mod token;

use oarlock_client::{Call, Reply};
use oarlock_meta::Status;

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

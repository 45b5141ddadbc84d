//! Resources that are only answered: token reviews, access reviews, and Bindings posted to their collection.

mod access;
mod token;

use oarlock_client::{Call, List, Reply};
use oarlock_meta::Status;
use oarlock_schema::Obj;

use crate::caller::Caller;
use crate::server::Server;
use crate::subresources::binding;
use crate::target::Target;

/// Answers a call on a resource without storage.
///
/// # Errors
/// The Status with which the call is answered.
pub(crate) async fn answer(server: &Server, caller: &Caller, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
    let resource = target.resource();
    match (resource.plural, call) {
        ("bindings", Call::Create(obj, options)) => {
            let name = obj.meta().name().to_owned();
            let Some(pods) = oarlock_schema::resource("", "v1", "pods") else {
                return Err(Status::internal_error("no pods"));
            };
            let pod = Target::new(pods, "binding", target.namespace, &name);
            binding::bind(server, caller, &pod, &obj, &options).await
        }
        ("tokenreviews", Call::Create(obj, _)) => token::review(server, obj),
        ("selfsubjectreviews", Call::Create(obj, _)) => Ok(token::who_am_i(caller, obj)),
        ("subjectaccessreviews", Call::Create(obj, _)) => access::subject(server, obj, None),
        ("localsubjectaccessreviews", Call::Create(obj, _)) => access::subject(server, obj, Some(target.namespace)),
        ("selfsubjectaccessreviews", Call::Create(obj, _)) => access::own(server, caller, obj),
        ("selfsubjectrulesreviews", Call::Create(obj, _)) => access::rules(server, caller, obj),
        // Component statuses are deprecated upstream since 1.19; the list is empty here because no component reports to it.
        ("componentstatuses", Call::List(_)) => {
            Ok(Reply::List(List { revision: server.view().applied(), ..List::default() }))
        }
        ("componentstatuses", Call::Get(_)) => Err(target.not_found()),
        (_, call) => Err(Status::method_not_supported(&resource.group_resource(), call.verb())),
    }
}

/// A body of the expected view, or 400.
fn stamped(mut obj: Obj) -> Reply {
    if let Some(mut meta) = obj.meta_mut() {
        meta.clear_managed_fields();
    }
    oarlock_schema::canonical::canonicalize(&mut obj);
    crate::call::answer(&obj, true)
}

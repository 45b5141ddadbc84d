//! Executes one call, over whichever transport it came: authorizes it, then hands it to its verb or subresource.

use oarlock_apis::rules::formats;
use oarlock_client::{Call, Reply, Request};
use oarlock_meta::{FieldSelector, Status};
use oarlock_schema::Resource;
use oarlock_seeded_bug::seeded_bug;

use crate::answers::reply;
use crate::caller::Caller;
use crate::server::Server;
use crate::subresources;
use crate::target::Target;
use crate::verbs::{self, delete::Deleted};

/// A caller's calls on a server: each is authorized, then executed by its verb or subresource.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch<'a> {
    server: &'a Server,
    caller: &'a Caller,
}

impl<'a> Dispatch<'a> {
    /// Creates the dispatch of one caller's calls on a server.
    #[must_use]
    pub fn new(server: &'a Server, caller: &'a Caller) -> Self {
        Self { server, caller }
    }

    /// Authorizes and executes a call.
    ///
    /// # Errors
    /// 403 when the caller is not authorized, and the errors of [`Dispatch::execute`].
    pub async fn call(self, request: Request) -> Result<Reply, Status> {
        // A call on a collection acts on every object that its options select, so a name in the request must not narrow its authorization.
        let collection = matches!(request.call, Call::List(_) | Call::DeleteCollection(..));
        let name = if collection { "" } else { request.name.as_str() };
        let target = Target::new(request.resource, request.subresource, &request.namespace, name);
        let judged = Target::new(request.resource, request.subresource, &request.namespace, authorized_name(&request));
        let fields = match &request.call {
            Call::List(options) | Call::DeleteCollection(options, _) => Some(&options.field_selector),
            _ => None,
        };
        self.server.authorize_selected(self.caller, request.call.verb(), &judged, fields)?;
        self.execute(&target, request.call).await
    }

    /// Executes a call that is already authorized.
    ///
    /// # Errors
    /// The Status with which the call is answered.
    pub async fn execute(self, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
        let Self { server, caller } = self;
        server.authorize_claim(caller)?;
        // Lists and gets prove the freshness of their state themselves.
        if call.is_read() || !server.store().is_shared() {
            return self.perform(target, call).await;
        }
        if reads_first(&call) {
            server.fresh_enough(None, caller.deadline).await?;
        }
        // A write may be refused because of a View that lags behind a write that another server has acknowledged. The refusal counts only if it
        // repeats once freshness is proven.
        let (before, again) = (server.view().applied(), call.clone());
        let refusal = match self.perform(target, call).await {
            Err(status) if may_be_stale(&status) => status,
            answer => return answer,
        };
        if !seeded_bug!("stale_negative") {
            server.fresh_enough(None, caller.deadline).await?;
        }
        if server.view().applied() == before { Err(refusal) } else { self.perform(target, again).await }
    }

    /// Performs a call. The futures of all calls that are larger than a create are boxed: the future of every request would have room for them.
    async fn perform(self, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
        let Self { server, caller } = self;
        if !serves(target, &call) {
            return Err(Status::method_not_supported(&target.resource().group_resource(), call.verb()));
        }
        if let Call::Create(obj, _) | Call::Update(obj, _) = &call {
            // The request was authorized for the namespace of its URL: no body, not even that of a subresource, may name another one.
            crate::identity::check_namespace(target, obj)?;
        }
        if target.subresource.is_empty() && target.resource().storage.is_none() {
            return Box::pin(crate::reviews::answer(server, caller, target, call)).await;
        }
        if !matches!(target.subresource, "" | "status" | "finalize" | "approval" | "resize" | "ephemeralcontainers") {
            return Box::pin(subresources::call(server, caller, target, call)).await;
        }
        match call {
            Call::Get(options) => {
                let object = verbs::get::get(server, caller, target, &options).await?;
                Ok(Reply::Object { object, created: false })
            }
            Call::List(options) => Ok(Reply::List(verbs::list::list(server, caller, target, &options).await?)),
            Call::Create(obj, options) => {
                let entry = verbs::create::create(server, caller, target, obj, &options).await?;
                reply(target, &entry, true)
            }
            Call::Update(obj, options) => {
                let update = Box::pin(verbs::update::update(server, caller, target, obj, &options));
                let (entry, created) = update.await?;
                reply(target, &entry, created)
            }
            Call::Patch(patch_type, body, options) => {
                let patch = Box::pin(verbs::patch::patch(server, caller, target, patch_type, &body, &options));
                let (entry, created) = patch.await?;
                reply(target, &entry, created)
            }
            Call::Delete(options) => match Box::pin(verbs::delete::delete(server, caller, target, &options)).await? {
                Deleted::Pending(entry) => reply(target, &entry, false),
                Deleted::Removed(entry) if target.resource().returns_object => reply(target, &entry, false),
                Deleted::Removed(entry) => {
                    let resource = target.resource().group_resource();
                    Ok(Reply::Status(Status::success_deleted(&resource, target.name, &entry.uid)))
                }
            },
            Call::DeleteCollection(list, options) => {
                let delete = verbs::delete_collection::delete_collection(server, caller, target, &list, &options);
                Ok(Reply::List(Box::pin(delete).await?))
            }
        }
    }
}

/// Returns the object name for which a call is authorized. As over HTTP, a list that a selector narrows to one object is about that object; a
/// deletion by selector is about the whole collection.
fn authorized_name(request: &Request) -> &str {
    match &request.call {
        Call::List(options) => selected_name(&options.field_selector),
        Call::DeleteCollection(..) => "",
        _ => &request.name,
    }
}

/// Returns the one name that a selector allows, or an empty string (upstream: `NewRequestInfo`).
pub(crate) fn selected_name(selector: &FieldSelector) -> &str {
    selector.exact("metadata.name").filter(|name| formats::path_segment(name).is_empty()).unwrap_or("")
}

/// Whether the answer of a call is only as fresh as the state it reads: such a call has no commit that would detect outdated state.
fn reads_first(call: &Call) -> bool {
    match call {
        Call::Create(_, options) | Call::Update(_, options) | Call::Patch(_, _, options) => options.dry_run,
        Call::Delete(options) => options.dry_run,
        Call::Get(_) | Call::List(_) => false,
        Call::DeleteCollection(..) => true,
    }
}

/// Whether a Status may be due to outdated state: an object is missing, already exists, has changed, or an address, port or quota is used up or taken.
fn may_be_stale(status: &Status) -> bool {
    matches!(status.code, 403 | 404 | 409 | 422)
}

/// Whether discovery lists the verb of a call for its target.
fn serves(target: &Target<'_>, call: &Call) -> bool {
    let resource: &Resource = target.resource();
    match target.subresource {
        "" => resource.has_verb(call.verb()),
        name => resource.subresource(name).is_some_and(|s| s.verbs.contains(&call.verb())),
    }
}

#[cfg(test)]
mod tests {
    use oarlock_client::{DeleteOptions, ListOptions};

    use super::*;

    fn bytes<'a, F>(_: impl Fn(Dispatch<'a>, Request) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_call_has_room_for_a_create_and_no_more() {
        let future = bytes(Dispatch::call);
        assert!(future <= 5 << 10, "{future} bytes");
    }

    #[test]
    fn a_list_of_one_name_is_authorized_for_it_and_a_deletion_of_it_for_the_collection() {
        let secrets = oarlock_schema::resource("", "v1", "secrets").unwrap();
        let options = |selector: &str| ListOptions {
            field_selector: FieldSelector::parse(selector).unwrap(),
            ..ListOptions::default()
        };
        let name = |call| {
            let request = Request {
                resource: secrets,
                subresource: "",
                namespace: "ns".into(),
                name: "x".into(),
                call,
                fence: None,
                timeout: std::time::Duration::ZERO,
            };
            authorized_name(&request).to_owned()
        };
        assert_eq!(name(Call::List(options("metadata.name=one"))), "one");
        assert_eq!(name(Call::List(options("metadata.name!=one"))), "");
        assert_eq!(name(Call::List(options("metadata.name=a/b"))), "");
        assert_eq!(name(Call::List(ListOptions::default())), "");
        assert_eq!(name(Call::DeleteCollection(options("metadata.name=one"), DeleteOptions::default())), "");
        assert_eq!(name(Call::Delete(DeleteOptions::default())), "x");
    }
}

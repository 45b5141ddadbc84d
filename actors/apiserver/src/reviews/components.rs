//! Component statuses (deprecated upstream since 1.19).
//!
//! Upstream probes the health ports of a scheduler, a controller manager and an etcd on the same host. Here the only item is the store, under the
//! name that etcd has upstream, since it is the one component that this server depends on. Schedulers and controllers open no such port, and those on
//! other hosts could not be reached, so they are not listed.

use oarlock_client::{List, ListOptions, Object, Reply};
use oarlock_meta::{GroupResource, Revision, Status};
use oarlock_schema::views::core_v1::ComponentStatusMut;
use oarlock_schema::{Obj, Struct, Value, canonical, type_named};

use crate::server::Server;
use crate::target::Target;

const STORE: &str = "etcd-0";

/// Lists the selected components.
///
/// # Errors
/// 500 for damaged schema facts.
pub(super) fn list(server: &Server, target: &Target<'_>, options: &ListOptions) -> Result<Reply, Status> {
    const LABELS: [(&str, &str); 0] = [];
    let selected =
        options.label_selector.matches(&LABELS) && options.field_selector.matches(&[("metadata.name", STORE)]);
    let items = if selected { vec![store(server, target)?] } else { Vec::new() };
    Ok(Reply::List(List { revision: server.view().applied(), items, ..List::default() }))
}

/// Returns one component.
///
/// # Errors
/// 404 for an unknown name; upstream's text has the kind in place of the resource here.
pub(super) fn get(server: &Server, target: &Target<'_>) -> Result<Reply, Status> {
    if target.name != STORE {
        return Err(Status::not_found(&GroupResource::new("", "componentstatus"), target.name));
    }
    Ok(Reply::Object { object: store(server, target)?, created: false })
}

fn store(server: &Server, target: &Target<'_>) -> Result<Object, Status> {
    let ty =
        type_named("core/v1.ComponentCondition").ok_or_else(|| Status::internal_error("no component conditions"))?;
    let (healthy, message) =
        if server.store().health().dead { ("False", "the store has failed") } else { ("True", "ok") };
    let mut condition = Struct::zero(ty);
    condition.set_name("type", "Healthy");
    condition.set_name("status", healthy);
    condition.set_name("message", message);
    let mut obj = Obj::new(target.resource().ty);
    let mut component = ComponentStatusMut::new(&mut obj);
    component.metadata_mut().set_name(STORE);
    component.conditions_mut().push(Value::Struct(condition));
    canonical::canonicalize(&mut obj);
    Ok(Object::new(obj.ty(), oarlock_codec::json::encode(&obj).bytes.into(), Revision::ZERO))
}

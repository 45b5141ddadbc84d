//! `pods/binding`: puts a pod on a node, once.

use oarlock_client::{Reply, WriteOptions};
use oarlock_meta::{ErrorList, FieldError, Path, Revision, Status};
use oarlock_schema::views::core_v1::{Binding, Pod, PodMut};
use oarlock_schema::{Obj, Value};

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;
use crate::verbs::update::{Change, modify};

/// Binds the pod that the URL names.
///
/// # Errors
/// 404; 409 when the pod is bound, going away or gated; 422 for a target that is no node.
pub(crate) async fn bind(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    body: &Obj,
    options: &WriteOptions,
) -> Result<Reply, Status> {
    let Some(binding) = body.view::<Binding<'_>>() else { return Err(Status::bad_request("the body is no Binding")) };
    check(target, binding)?;
    let node = binding.target().name().to_owned();
    let pod = Target { subresource: "", ..*target };
    let uid = body.meta().uid().to_owned();
    let mut change = |old: &Obj, _: Revision| -> Result<Change, Status> {
        let conflict = |why: String| Err(Status::conflict(&pod.resource().group_resource(), pod.name, why));
        let Some(view) = old.view::<Pod<'_>>() else { return Err(Status::internal_error("stored pod is no pod")) };
        if !uid.is_empty() && uid != old.meta().uid() {
            return conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                old.meta().uid()
            ));
        }
        if old.meta().deletion_timestamp().is_some_and(|t| !t.is_empty()) {
            return conflict(format!("pod {} is being deleted, cannot be assigned to a host", pod.name));
        }
        if !view.spec().node_name().is_empty() {
            return conflict(format!("pod {} is already assigned to node \"{}\"", pod.name, view.spec().node_name()));
        }
        if !view.spec().scheduling_gates().is_empty() {
            return conflict(format!("pod {} has non-empty .spec.schedulingGates", pod.name));
        }
        let mut obj = old.clone();
        let mut changed = PodMut::new(&mut obj);
        changed.spec_mut().set_node_name(node.as_str());
        for (key, value) in body.meta().annotations().iter() {
            changed.metadata_mut().annotations_mut().insert(key, value);
        }
        scheduled(&mut changed);
        Ok(Change::own(obj))
    };
    let bind = Target { subresource: "binding", ..*target };
    modify(server, caller, &bind, options, &mut change).await?;
    Ok(Reply::Status(Status { code: 201, ..Status::success() }))
}

/// The PodScheduled condition becomes true.
fn scheduled(pod: &mut PodMut<'_>) {
    let now = crate::stages::now_text();
    let generation = pod.read().metadata().generation();
    let mut status = pod.status_mut();
    let conditions = status.conditions_mut();
    let ty = oarlock_schema::type_named("core/v1.PodCondition");
    let existing = conditions.iter_mut().find(|c| c.get("type").and_then(Value::as_str) == Some("PodScheduled"));
    if let Some(condition) = existing.and_then(Value::as_struct_mut) {
        if condition.get("status").and_then(Value::as_str) != Some("True") {
            condition.set_name("lastTransitionTime", now.as_str());
        }
        condition.set_name("status", "True");
        condition.remove_name("reason");
        condition.remove_name("message");
        if generation > 0 {
            condition.set_name("observedGeneration", generation);
        }
    } else if let Some(ty) = ty {
        let mut condition = oarlock_schema::Struct::zero(ty);
        condition.set_name("type", "PodScheduled");
        condition.set_name("status", "True");
        condition.set_name("lastTransitionTime", now.as_str());
        if generation > 0 {
            condition.set_name("observedGeneration", generation);
        }
        conditions.push(Value::Struct(condition));
    }
}

fn check(target: &Target<'_>, binding: Binding<'_>) -> Result<(), Status> {
    let path = Path::new("target");
    let mut errors = ErrorList::default();
    let kind = binding.target().kind();
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &["Node", "<empty>"]));
    }
    if binding.target().name().is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&oarlock_meta::GroupKind::new("", "Binding"), target.name, errors.as_slice()))
}

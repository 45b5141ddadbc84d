//! `scale`: the replica count of a workload as autoscaling/v1.Scale.

use oarlock_client::{Call, GetOptions, PatchType, Reply, WriteOptions};
use oarlock_meta::{Revision, Status};
use oarlock_schema::{Obj, Struct, Value};

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;
use crate::verbs::get;
use crate::verbs::update::{self, Change, modify};

/// Executes a call on `scale`.
///
/// # Errors
/// The Status with which the call is answered.
pub(crate) async fn call(server: &Server, caller: &Caller, target: &Target<'_>, call: Call) -> Result<Reply, Status> {
    match call {
        Call::Get(GetOptions { resource_version }) => {
            let object = get::get(server, caller, target, &GetOptions { resource_version }).await?;
            Ok(crate::call::answer(&scale_of(&object.obj()?)?, false))
        }
        Call::Update(body, options) => {
            let wanted = body;
            write(server, caller, target, &options, &mut |_, _| Ok(wanted.clone())).await
        }
        Call::Patch(patch_type, bytes, options) => {
            let mut patched = |current: &Obj, _: Revision| patch(caller, target, patch_type, &bytes, &options, current);
            write(server, caller, target, &options, &mut patched).await
        }
        other => Err(Status::method_not_supported(&target.resource().group_resource(), other.verb())),
    }
}

fn patch(
    caller: &Caller,
    target: &Target<'_>,
    patch_type: PatchType,
    bytes: &bytes::Bytes,
    options: &WriteOptions,
    current: &Obj,
) -> Result<Obj, Status> {
    crate::patching::apply_to(caller, target, patch_type, bytes, options, current)
}

type Wanted<'a> = &'a mut (dyn FnMut(&Obj, Revision) -> Result<Obj, Status> + Send);

async fn write(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &WriteOptions,
    wanted: Wanted<'_>,
) -> Result<Reply, Status> {
    let mut change = |old: &Obj, revision: Revision| -> Result<Change, Status> {
        let scale = wanted(&scale_of(old)?, revision)?;
        let named = scale.meta().resource_version();
        let expect = if named.is_empty() { None } else { Some(update::parse_revision(named)?) };
        let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
        if replicas < 0 {
            let mut errors = oarlock_meta::ErrorList::default();
            errors.push(oarlock_meta::FieldError::invalid(
                &oarlock_meta::Path::new("spec").child("replicas"),
                replicas,
                "must be greater than or equal to 0",
            ));
            return Err(Status::invalid(
                &oarlock_meta::GroupKind::new("autoscaling", "Scale"),
                target.name,
                errors.as_slice(),
            ));
        }
        let mut obj = old.clone();
        obj.set_at(&["spec", "replicas"], replicas);
        Ok(Change::asked(obj, expect))
    };
    let parent = Target { subresource: "scale", ..*target };
    let entry = modify(server, caller, &parent, options, &mut change).await?.entry();
    Ok(crate::call::answer(&scale_of(&target.decode(&entry)?)?, false))
}

/// The Scale of a workload (its selector as text, as upstream).
///
/// # Errors
/// 500 when the schema facts have no Scale.
pub(crate) fn scale_of(obj: &Obj) -> Result<Obj, Status> {
    let ty =
        oarlock_schema::type_named("autoscaling/v1.Scale").ok_or_else(|| Status::internal_error("no Scale type"))?;
    let mut scale = Obj::new(ty);
    let meta = obj.meta();
    for (field, text) in [
        ("name", meta.name()),
        ("namespace", meta.namespace()),
        ("uid", meta.uid()),
        ("resourceVersion", meta.resource_version()),
        ("creationTimestamp", meta.creation_timestamp()),
    ] {
        scale.set_at(&["metadata", field], text);
    }
    scale.set_at(&["spec", "replicas"], obj.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0));
    scale.set_at(&["status", "replicas"], obj.at(&["status", "replicas"]).and_then(Value::as_int).unwrap_or(0));
    if let Some(selector) = obj.at(&["spec", "selector"]) {
        scale.set_at(&["status", "selector"], selector_text(selector));
    }
    oarlock_schema::canonical::canonicalize(&mut scale);
    Ok(scale)
}

/// A LabelSelector, or a plain map of labels, in the string form of label selectors.
fn selector_text(selector: &Value) -> String {
    let mut terms: Vec<String> = Vec::new();
    let pairs = |map: &Value| -> Vec<String> {
        map.as_map()
            .map_or_else(Vec::new, |m| m.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect())
    };
    match selector {
        Value::Map(_) => terms.extend(pairs(selector)),
        Value::Struct(node) => {
            terms.extend(node.get("matchLabels").map(pairs).unwrap_or_default());
            terms.extend(
                node.get("matchExpressions")
                    .map_or(&[][..], Value::items)
                    .iter()
                    .filter_map(Value::as_struct)
                    .map(expression),
            );
        }
        _ => {}
    }
    terms.join(",")
}

fn expression(node: &Struct) -> String {
    let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or("");
    let values = || {
        let mut values: Vec<&str> =
            node.get("values").map_or(&[][..], Value::items).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        values.join(",")
    };
    match text("operator") {
        "In" => format!("{} in ({})", text("key"), values()),
        "NotIn" => format!("{} notin ({})", text("key"), values()),
        "DoesNotExist" => format!("!{}", text("key")),
        _ => text("key").to_owned(),
    }
}

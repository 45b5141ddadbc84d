//! What a kubelet may ask tokens for: one of its pods, for an audience that the pod asks for (KEP-4412).

use oarlock_registry::Reader;
use oarlock_schema::views::core_v1::Pod;
use oarlock_schema::{Obj, Value};

use crate::plugins::row;

/// The pod to which a token is bound.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

/// The pod that a request names.
pub(super) fn bound_to(request: &Obj) -> Result<Bound<'_>, &'static str> {
    let bound = request.at(&["spec", "boundObjectRef"]);
    let text = |field: &str| bound.and_then(|b| b.get(field)).and_then(Value::as_str).unwrap_or("");
    let (name, uid) = (text("name"), text("uid"));
    if text("apiVersion") != "v1" || text("kind") != "Pod" || name.is_empty() {
        return Err("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return Err("node requested token with a pod binding without a uid");
    }
    Ok(Bound { name, uid })
}

/// Checks the audience that a request names; none is the server's own.
pub(super) fn audience(reader: &Reader, request: &Obj, pod: &Obj, node: &str) -> Result<(), String> {
    let asked = request.at(&["spec", "audiences"]).map_or(&[][..], Value::items);
    let asked = match asked {
        [] => return Ok(()),
        [one] => one.as_str().unwrap_or(""),
        _ => return Err("node may only request 0 or 1 audiences".to_owned()),
    };
    let Some(spec) = pod.view::<Pod<'_>>().map(Pod::spec) else { return Ok(()) };
    let projected = spec.volumes().iter().filter_map(|v| v.projected()).any(|projected| {
        projected.sources().iter().filter_map(|s| s.service_account_token()).any(|token| token.audience() == asked)
    });
    if projected || spec.volumes().iter().filter_map(|v| v.csi()).any(|csi| driver_asks(reader, csi.driver(), asked)) {
        return Ok(());
    }
    Err(format!(
        "audience \"{asked}\" not found in pod spec volume, system:node:{node} is not authorized to request tokens for this audience"
    ))
}

fn driver_asks(reader: &Reader, driver: &str, audience: &str) -> bool {
    let driver = row("storage.k8s.io", "v1", "csidrivers").and_then(|drivers| reader.get(drivers, "", driver));
    let requests = driver.as_ref().and_then(|d| d.at(&["spec", "tokenRequests"])).map_or(&[][..], Value::items);
    requests.iter().any(|r| r.get("audience").and_then(Value::as_str).unwrap_or("") == audience)
}

//! Conversion between a workload and its autoscaling/v1.Scale.

use oarlock_meta::Status;
use oarlock_schema::{Obj, Struct, Value};

/// Returns the wanted replicas of a Scale or a workload; 0 when none are stated.
pub(crate) fn replicas(obj: &Obj) -> i64 {
    obj.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0)
}

/// Copies the wanted replicas of a Scale into its workload.
pub(crate) fn set_replicas(scale: &Obj, workload: &mut Obj) {
    workload.set_at(&["spec", "replicas"], replicas(scale));
}

/// Builds the Scale of a workload (its selector as text, as upstream).
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
    scale.set_at(&["spec", "replicas"], replicas(obj));
    scale.set_at(&["status", "replicas"], obj.at(&["status", "replicas"]).and_then(Value::as_int).unwrap_or(0));
    if let Some(selector) = obj.at(&["spec", "selector"]) {
        scale.set_at(&["status", "selector"], selector_text(selector));
    }
    oarlock_schema::canonical::canonicalize(&mut scale);
    Ok(scale)
}

/// Returns a LabelSelector, or a plain map of labels, in the string form of label selectors.
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

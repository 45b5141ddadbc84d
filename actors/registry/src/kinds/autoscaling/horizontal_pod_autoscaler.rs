//! HorizontalPodAutoscalers are stored as v2. v1 has one metric, the utilization of cpu; the other v2 fields are kept in annotations of the v1
//! object, so that a v1 client that reads, changes and writes loses nothing.

use oarlock_codec::{Mode, json, tree};
use oarlock_meta::Status;
use oarlock_schema::{Obj, Struct, TypeRef, Value, canonical, type_named};

use crate::kind::Strategy;

/// The annotation with the metrics that v1 has no field for, as JSON of their v2 form.
const METRICS: &str = "autoscaling.oarlock.dev/metrics";
/// The annotation with `spec.behavior`, which v1 has no field for, as JSON.
const BEHAVIOR: &str = "autoscaling.oarlock.dev/behavior";

/// Strategy of autoscalers, of both versions.
#[derive(Debug)]
pub struct HorizontalPodAutoscalerStrategy;

impl Strategy for HorizontalPodAutoscalerStrategy {
    fn convert(&self, obj: &Obj, to: TypeRef) -> Result<Obj, Status> {
        if std::ptr::eq(obj.ty(), to) {
            return Ok(obj.clone());
        }
        let mut out = Obj::new(to);
        if let Some(metadata) = obj.get("metadata") {
            out.set_name("metadata", metadata.clone());
        }
        if to.name.starts_with("autoscaling/v2") {
            to_v2(obj, &mut out)?
        } else {
            to_v1(obj, &mut out)
        }
        canonical::canonicalize(&mut out);
        Ok(out)
    }
}

/// The paths of the fields that both versions have.
const SHARED: &[&[&str]] = &[
    &["spec", "scaleTargetRef", "kind"],
    &["spec", "scaleTargetRef", "name"],
    &["spec", "scaleTargetRef", "apiVersion"],
    &["spec", "minReplicas"],
    &["spec", "maxReplicas"],
    &["status", "observedGeneration"],
    &["status", "lastScaleTime"],
    &["status", "currentReplicas"],
    &["status", "desiredReplicas"],
];

fn share(from: &Struct, to: &mut Struct) {
    for path in SHARED {
        if let Some(value) = from.at(path) {
            to.set_at(path, value.clone());
        }
    }
}

fn is_cpu(metric: &Value) -> bool {
    let text = |path: &[&str]| metric.at(path).and_then(Value::as_str);
    text(&["type"]) == Some("Resource")
        && text(&["resource", "name"]) == Some("cpu")
        && metric.at(&["resource", "target", "averageUtilization"]).and_then(Value::as_int).is_some()
}

fn to_v1(from: &Obj, to: &mut Obj) {
    share(from, to);
    let metrics = from.at(&["spec", "metrics"]).map_or(&[][..], Value::items);
    let cpu = metrics.iter().find(|m| is_cpu(m));
    if let Some(percent) = cpu.and_then(|m| m.at(&["resource", "target", "averageUtilization"])) {
        to.set_at(&["spec", "targetCPUUtilizationPercentage"], percent.clone());
    }
    let current = from.at(&["status", "currentMetrics"]).map_or(&[][..], Value::items).iter();
    if let Some(percent) = current.filter_map(|m| m.at(&["resource", "current", "averageUtilization"])).next() {
        to.set_at(&["status", "currentCPUUtilizationPercentage"], percent.clone());
    }
    let others: Value = metrics.iter().filter(|m| cpu.is_none_or(|c| !std::ptr::eq(c, *m))).cloned().collect();
    if !others.items().is_empty() {
        annotate(to, METRICS, &others);
    }
    if let Some(behavior) = from.at(&["spec", "behavior"]) {
        annotate(to, BEHAVIOR, behavior);
    }
}

fn annotate(obj: &mut Obj, key: &str, value: &Value) {
    let mut text = Vec::new();
    json::encode_value(value, &mut text);
    if let (Some(mut meta), Ok(text)) = (obj.meta_mut(), String::from_utf8(text)) {
        meta.annotations_mut().insert(key, text);
    }
}

fn to_v2(from: &Obj, to: &mut Obj) -> Result<(), Status> {
    share(from, to);
    let mut metrics: Vec<Value> = Vec::new();
    if let Some(percent) = from.at(&["spec", "targetCPUUtilizationPercentage"])
        && let Some(ty) = type_named("autoscaling/v2.MetricSpec")
    {
        let mut metric = Struct::zero(ty);
        metric.set_name("type", "Resource");
        metric.set_at(&["resource", "name"], "cpu");
        metric.set_at(&["resource", "target", "type"], "Utilization");
        metric.set_at(&["resource", "target", "averageUtilization"], percent.clone());
        metrics.push(Value::Struct(metric));
    }
    if let Some(others) = carried(from, to, METRICS, ("spec", "metrics"))? {
        metrics.extend(others.items().iter().cloned());
    }
    if !metrics.is_empty() {
        to.set_at(&["spec", "metrics"], metrics.into_iter().collect::<Value>());
    }
    if let Some(behavior) = carried(from, to, BEHAVIOR, ("spec", "behavior"))? {
        to.set_at(&["spec", "behavior"], behavior);
    }
    Ok(())
}

/// Removes an annotation and returns its value in the form of the field at `path`.
fn carried(from: &Obj, to: &mut Obj, key: &str, (group, field): (&str, &str)) -> Result<Option<Value>, Status> {
    let Some(text) = from.meta().annotations().get(key) else { return Ok(None) };
    let bad = |e: &dyn std::fmt::Display| Status::bad_request(format!("annotation {key}: {e}"));
    let generic = json::decode_value(text.as_bytes(), Mode::Lenient).map_err(|e| bad(&e))?.value;
    let spec = to.ty().field(group).and_then(|(_, def)| def.shape.element_type());
    let Some((_, def)) = spec.and_then(|ty| ty.field(field)) else { return Ok(None) };
    let typed = tree::type_as(&generic, &def.shape).map_err(|e| bad(&e))?;
    if let Some(mut meta) = to.meta_mut() {
        meta.annotations_mut().remove(key);
    }
    Ok(Some(typed))
}

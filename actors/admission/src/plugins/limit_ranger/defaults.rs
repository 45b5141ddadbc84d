//! Defaults of limit ranges for containers.

use oarlock_schema::views::core_v1::PodMut;
use oarlock_schema::{Map, Obj, Str, Struct, Value};

use super::constraints::Limit;
use oarlock_pods::Amounts;

/// The annotation that lists the filled fields.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Fills the containers' missing requests and limits with the defaults of one limit range.
pub(super) fn fill(pod: &mut Obj, limits: &[Limit]) {
    let (mut default, mut default_request) = (Amounts::default(), Amounts::default());
    for limit in limits.iter().filter(|l| l.kind == "Container") {
        limit.default.iter().for_each(|(name, amount)| default.set(name, amount.clone()));
        limit.default_request.iter().for_each(|(name, amount)| default_request.set(name, amount.clone()));
    }
    if default.is_empty() && default_request.is_empty() {
        return;
    }
    let mut texts = Vec::new();
    {
        let mut view = PodMut::new(pod);
        let mut spec = view.spec_mut();
        let spec = spec.raw_mut();
        for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
            let Some(Value::List(containers)) = spec.get_mut(field) else { continue };
            for container in containers.iter_mut().filter_map(Value::as_struct_mut) {
                let name = container.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
                for (half, defaults, word) in [("requests", &default_request, "request"), ("limits", &default, "limit")]
                {
                    let filled = fill_half(container, half, defaults);
                    if !filled.is_empty() {
                        texts.push(format!("{} {word} for {what} {name}", filled.join(", ")));
                    }
                }
            }
        }
    }
    if texts.is_empty() {
        return;
    }
    if let Some(mut meta) = pod.meta_mut() {
        meta.annotations_mut().insert(ANNOTATION, format!("LimitRanger plugin set: {}", texts.join("; ")));
    }
}

/// Fills one half of a container's requirements; returns the names of the filled resources, in order.
fn fill_half<'a>(container: &mut Struct, half: &str, defaults: &'a Amounts) -> Vec<&'a str> {
    let given = container.at(&["resources", half]).and_then(Value::as_map);
    let missing: Vec<(&str, Str)> = defaults
        .iter()
        .filter(|(name, _)| given.is_none_or(|map| map.get(name).is_none()))
        .map(|(name, amount)| (name, amount.canonical()))
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let mut map: Map = given.cloned().unwrap_or_default();
    for (name, amount) in &missing {
        map.insert(*name, amount.clone());
    }
    container.set_at(&["resources", half], map);
    missing.into_iter().map(|(name, _)| name).collect()
}

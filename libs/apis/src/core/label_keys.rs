//! `matchLabelKeys` and `mismatchLabelKeys`: add a new pod's own labels to its selectors (KEP-3243, KEP-3633).

use std::collections::{HashMap, HashSet};

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::List;
use oarlock_schema::views::meta_v1::LabelSelector;
use oarlock_schema::{Map, Struct, Value, type_named};

/// Merges the keys of a new pod's affinity terms and spread constraints into their selectors, with the current values of the pod's labels
/// (upstream `mutatePodAffinity`, `mutateTopologySpreadConstraints`). A term without a selector matches nothing and stays unchanged.
pub fn merge(pod: &mut Struct) {
    let has_none = |spec: &Value| spec.get("affinity").is_none() && spec.get("topologySpreadConstraints").is_none();
    if pod.get("spec").is_none_or(has_none) {
        return;
    }
    let Some(labels) = pod.at(&["metadata", "labels"]).and_then(Value::as_map).cloned() else { return };
    let Some(Value::Struct(spec)) = pod.get_mut("spec") else { return };
    if let Some(Value::Struct(affinity)) = spec.get_mut("affinity") {
        for field in ["podAffinity", "podAntiAffinity"] {
            let Some(Value::Struct(one)) = affinity.get_mut(field) else { continue };
            each(one, "requiredDuringSchedulingIgnoredDuringExecution", &mut |term| merge_term(term, &labels));
            each(one, "preferredDuringSchedulingIgnoredDuringExecution", &mut |weighted| {
                if let Some(Value::Struct(term)) = weighted.get_mut("podAffinityTerm") {
                    merge_term(term, &labels);
                }
            });
        }
    }
    each(spec, "topologySpreadConstraints", &mut |constraint| merge_term(constraint, &labels));
}

fn each(node: &mut Struct, field: &str, change: &mut dyn FnMut(&mut Struct)) {
    if let Some(Value::List(items)) = node.get_mut(field) {
        items.iter_mut().filter_map(Value::as_struct_mut).for_each(change);
    }
}

fn merge_term(term: &mut Struct, labels: &Map) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(field).map_or(&[][..], Value::items).iter().filter_map(Value::as_str);
        let present = keys.filter_map(|key| Some((key, labels.get(key)?.as_str()?)));
        added.extend(present.filter_map(|(key, value)| requirement(key, operator, value)));
    }
    let Some(Value::Struct(selector)) = term.get_mut("labelSelector").filter(|_| !added.is_empty()) else { return };
    match selector.get_mut("matchExpressions") {
        Some(Value::List(expressions)) => expressions.extend(added),
        _ => drop(selector.set_name("matchExpressions", added.into_iter().collect::<Value>())),
    }
}

fn requirement(key: &str, operator: &str, value: &str) -> Option<Value> {
    let mut node = Struct::zero(type_named("meta/v1.LabelSelectorRequirement")?);
    node.set_name("key", key);
    node.set_name("operator", operator);
    node.set_name("values", [value].into_iter().collect::<Value>());
    Some(Value::Struct(node))
}

/// Validates that each key of `matchLabelKeys` occurs in the selector only once, from [`merge`]: a key that the selector has besides, or that is listed twice,
/// is an error. Keys of `mismatchLabelKeys` may also be in the selector. As upstream, the path of the error lacks the field.
pub(super) fn once(keys: List<'_, &str>, selector: Option<LabelSelector<'_>>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(selector) = selector.filter(|_| !keys.is_empty()) else { return };
    let places: HashMap<&str, usize> = keys.iter().enumerate().map(|(i, key)| (key, i)).collect();
    let mut seen: HashSet<&str> = selector.match_labels().iter().map(|(key, _)| key).collect();
    for requirement in selector.match_expressions().iter() {
        let key = requirement.key();
        if let (Some(i), false) = (places.get(key), seen.insert(key)) {
            errors.push(FieldError::invalid(&path.index(*i), key, "exists in both matchLabelKeys and labelSelector"));
        }
    }
}

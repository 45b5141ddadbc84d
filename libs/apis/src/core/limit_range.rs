//! Defaults and validation of LimitRange.

use oarlock_meta::{ErrorList, FieldError, Path, Quantity};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{LimitRangeItem, LimitRangeSpec};
use oarlock_schema::{Map, Struct, Value};

use crate::rules::Seen;

/// Sets defaults: for containers the maximum is the default limit, and the default limit, or else the minimum, is the default request (upstream
/// `SetDefaults_LimitRangeItem`).
pub fn default(node: &mut Struct) {
    if node.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    let map = |node: &Struct, field: &str| node.get(field).and_then(Value::as_map).cloned().unwrap_or_default();
    let mut limit = map(node, "default");
    fill(&mut limit, &map(node, "max"));
    let mut request = map(node, "defaultRequest");
    fill(&mut request, &limit);
    fill(&mut request, &map(node, "min"));
    node.set_name("default", limit);
    node.set_name("defaultRequest", request);
}

fn fill(into: &mut Map, from: &Map) {
    for (key, value) in from.iter() {
        if into.get(key).is_none() {
            into.insert(key, value.clone());
        }
    }
}

/// Validates like upstream's `ValidateLimitRange`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = LimitRangeSpec::new(node);
    let mut seen: Seen<&str> = Seen::new();
    for (i, limit) in spec.limits().iter().enumerate() {
        let at = path.child("limits");
        let at = at.index(i);
        crate::rules::qualified(limit.type_(), &at.child("type"), errors);
        if seen.contains(&limit.type_()) {
            errors.push(FieldError::duplicate(&at.child("type"), limit.type_()));
        }
        seen.push(limit.type_());
        item(limit, &at, errors);
    }
}

fn item(limit: LimitRangeItem<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let pod = limit.type_() == "Pod";
    let lists = [
        ("max", limit.max()),
        ("min", limit.min()),
        ("default", limit.default_()),
        ("defaultRequest", limit.default_request()),
        ("maxLimitRequestRatio", limit.max_limit_request_ratio()),
    ];
    let mut keys: Vec<&str> = Vec::new();
    let mut seen: Seen<&str> = Seen::new();
    for (field, list) in lists {
        let at = path.child(field);
        if pod && field.starts_with("default") {
            if !list.is_empty() {
                errors.push(FieldError::forbidden(&at, "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (key, _) in list.iter() {
            if matches!(limit.type_(), "Pod" | "Container") {
                super::resources::container_name(key, &at.key(key), errors);
            } else {
                super::resources::name(key, &at.key(key), errors);
            }
            if !seen.is_repeat(key) {
                keys.push(key);
            }
        }
    }
    let claim = limit.type_() == "PersistentVolumeClaim";
    if claim && limit.min().get("storage").is_none() && limit.max().get("storage").is_none() {
        let text = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(&path.child("limits"), text));
    }
    for key in keys {
        order(limit, pod, key, path, errors);
    }
}

/// Validates that the amounts of one resource do not contradict each other.
fn order(limit: LimitRangeItem<'_>, pod: bool, key: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let amount = |text: Option<&str>| text.and_then(|t| Quantity::parse(t).ok());
    let (min, max) = (amount(limit.min().get(key)), amount(limit.max().get(key)));
    let default = amount(limit.default_().get(key)).filter(|_| !pod);
    let request = amount(limit.default_request().get(key)).filter(|_| !pod);
    let mut exceeds =
        |low: &Option<Quantity>, high: &Option<Quantity>, field: &str, shows_low: bool, names: (&str, &str)| {
            let (Some(low), Some(high)) = (low, high) else { return };
            if low > high {
                let (low, high) = (low.canonical(), high.canonical());
                let text = format!("{} value {low} is greater than {} value {high}", names.0, names.1);
                let shown = if shows_low { low } else { high };
                errors.push(FieldError::invalid(&path.child(field).key(key), shown.as_str(), text));
            }
        };
    exceeds(&min, &max, "min", true, ("min", "max"));
    exceeds(&min, &request, "defaultRequest", false, ("min", "default request"));
    exceeds(&request, &max, "defaultRequest", true, ("default request", "max"));
    exceeds(&request, &default, "defaultRequest", true, ("default request", "default limit"));
    exceeds(&min, &default, "default", true, ("min", "default"));
    exceeds(&default, &max, "default", false, ("default", "max"));
    if let Some(ratio) = amount(limit.max_limit_request_ratio().get(key))
        && ratio.milli_value() < 1000
    {
        let shown = ratio.canonical();
        let at = path.child("maxLimitRequestRatio");
        errors.push(FieldError::invalid(&at.key(key), shown.as_str(), format!("ratio {shown} is less than 1")));
    }
}

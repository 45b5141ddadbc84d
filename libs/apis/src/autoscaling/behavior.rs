//! Defaults and validation of the scaling behaviour of a HorizontalPodAutoscaler.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::autoscaling_v2::{HPAScalingPolicy, HPAScalingRules};
use oarlock_schema::{Shape, Struct, Value};

use crate::rules::one_of;

/// Completes partial scaling rules from the default rules (upstream `GenerateHPAScaleUpRules`).
pub fn default(node: &mut Struct) {
    for field in ["scaleUp", "scaleDown"] {
        let Some((_, def)) = node.ty().field(field) else { continue };
        let Some(Value::Struct(whole)) = def.default.and_then(|text| crate::constant::parse(text, &def.shape)) else {
            continue;
        };
        let Some(rules) = node.get_mut(field).and_then(Value::as_struct_mut) else { continue };
        for (id, value) in whole.entries() {
            let list = rules.ty().def(*id).is_some_and(|d| matches!(d.shape, Shape::List(_)));
            let unset = rules.field(*id).is_none_or(|v| v.is_null() || (list && v.items().is_empty()));
            if unset {
                rules.set(*id, value.clone());
            }
        }
    }
}

/// Validates like upstream's `validateScalingRules`.
pub fn validate_rules(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = HPAScalingRules::new(node);
    if let Some(seconds) = rules.stabilization_window_seconds() {
        let at = path.child("stabilizationWindowSeconds");
        if seconds < 0 {
            errors.push(FieldError::invalid(&at, seconds, "must be greater than or equal to zero"));
        } else if seconds > 3600 {
            errors.push(FieldError::invalid(&at, seconds, "must be less than or equal to 3600"));
        }
    }
    if let Some(policy) = rules.select_policy() {
        one_of(policy, &["Disabled", "Max", "Min"], &path.child("selectPolicy"), errors);
    }
    if rules.policies().is_empty() {
        errors.push(FieldError::required(&path.child("policies"), "must specify at least one Policy"));
    }
}

/// Validates like upstream's `validateScalingPolicy`.
pub fn validate_policy(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let policy = HPAScalingPolicy::new(node);
    one_of(policy.type_(), &["Percent", "Pods"], &path.child("type"), errors);
    for (field, n) in [("value", policy.value()), ("periodSeconds", policy.period_seconds())] {
        if n <= 0 {
            errors.push(FieldError::invalid(&path.child(field), n, "must be greater than zero"));
        }
    }
    if policy.period_seconds() > 1800 {
        let text = "must be less than or equal to 1800";
        errors.push(FieldError::invalid(&path.child("periodSeconds"), policy.period_seconds(), text));
    }
}

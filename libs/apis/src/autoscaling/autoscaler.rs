//! Defaults and validation of HorizontalPodAutoscaler.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::autoscaling_v2::{
    CrossVersionObjectReference, HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget,
};

use crate::rules::{each, formats, one_of, status};

/// Kinds of metrics, each with the field that describes the metric.
const METRICS: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// Validates like upstream's `validateHorizontalPodAutoscalerSpec`; the feature gate HPAScaleToZero allows scaling to zero.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = HorizontalPodAutoscalerSpec::new(node);
    let max = path.child("maxReplicas");
    if let Some(n) = spec.min_replicas().filter(|n| *n < 1) {
        errors.push(FieldError::invalid(&path.child("minReplicas"), n, "must be greater than or equal to 1"));
    }
    if spec.max_replicas() < 1 {
        errors.push(FieldError::invalid(&max, spec.max_replicas(), "must be greater than 0"));
    }
    if spec.min_replicas().is_some_and(|min| spec.max_replicas() < min) {
        errors.push(FieldError::invalid(&max, spec.max_replicas(), "must be greater than or equal to `minReplicas`"));
    }
    let elsewhere = spec.metrics().iter().any(|m| matches!(m.type_(), "Object" | "External"));
    if spec.min_replicas() == Some(0) && !elsewhere {
        let text = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(&path.child("metrics"), text));
    }
    let target = spec.scale_target_ref();
    if !target.api_version().contains('/') {
        let at = path.child("scaleTargetRef");
        errors.push(FieldError::invalid(
            &at.child("apiVersion"),
            target.api_version(),
            "apiVersion must specify API group",
        ));
    }
}

/// Validates like upstream's `ValidateCrossVersionObjectReference`.
pub fn validate_reference(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let reference = CrossVersionObjectReference::new(node);
    for (field, value) in [("kind", reference.kind()), ("name", reference.name())] {
        if value.is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        } else {
            each(formats::path_segment(value), value, &path.child(field), errors);
        }
    }
}

/// Validates like upstream's `validateMetricSpec`.
pub fn validate_metric(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let metric = MetricSpec::new(node);
    let kind = path.child("type");
    if metric.type_().is_empty() {
        errors.push(FieldError::required(&kind, "must specify a metric source type"));
    }
    let Some((_, expected)) = METRICS.iter().find(|(name, _)| *name == metric.type_()) else {
        let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        one_of(metric.type_(), &names, &kind, errors);
        return;
    };
    if node.get(expected).is_none() {
        errors
            .push(FieldError::required(&path.child(expected), "must populate information for the given metric source"));
    }
    let several = METRICS.iter().filter(|(_, field)| node.get(field).is_some()).count() > 1;
    for (_, field) in METRICS.iter().filter(|(_, field)| several && field != expected && node.get(field).is_some()) {
        errors.push(FieldError::forbidden(&path.child(field), "must populate the given metric source only"));
    }
    if let Some(resource) = metric.resource() {
        let at = path.child("resource");
        if resource.name().is_empty() {
            errors.push(FieldError::required(&at.child("name"), "must specify a resource name"));
        }
        target(resource.target(), &at.child("target"), errors);
    }
}

fn target(target: MetricTarget<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(n) = target.average_utilization().filter(|n| *n < 1) {
        errors.push(FieldError::invalid(&path.child("averageUtilization"), n, "must be greater than 0"));
    }
    for (field, value) in [("value", target.value()), ("averageValue", target.average_value())] {
        if value.is_some_and(|v| v == "0" || v.starts_with('-')) {
            errors.push(FieldError::invalid(&path.child(field), value.unwrap_or(""), "must be positive"));
        }
    }
}

/// Validates like upstream's `ValidateHorizontalPodAutoscalerStatusUpdate`, for both versions.
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    status::non_negative(status::of(new), &["currentReplicas", "desiredReplicas"], &Path::new("status"), errors);
}

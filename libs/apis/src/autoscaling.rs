//! Rules of the autoscaling group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod autoscaler;
pub mod behavior;

/// The rules of the autoscaling group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("autoscaling/v1.HorizontalPodAutoscaler").status(autoscaler::validate_status),
    TypeRules::of("autoscaling/v2.HorizontalPodAutoscaler").status(autoscaler::validate_status),
    TypeRules::of("autoscaling/v2.HorizontalPodAutoscalerSpec").validate(autoscaler::validate),
    TypeRules::of("autoscaling/v2.CrossVersionObjectReference").validate(autoscaler::validate_reference),
    TypeRules::of("autoscaling/v2.MetricSpec").validate(autoscaler::validate_metric),
    TypeRules::of("autoscaling/v2.HorizontalPodAutoscalerBehavior").default(behavior::default),
    TypeRules::of("autoscaling/v2.HPAScalingRules").validate(behavior::validate_rules),
    TypeRules::of("autoscaling/v2.HPAScalingPolicy").validate(behavior::validate_policy),
];

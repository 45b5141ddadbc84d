//! The admissionregistration group.

use crate::table::TypeRules;

pub mod webhook;

/// Rows of the admissionregistration group.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("admissionregistration/v1.ValidatingWebhook")
        .enums(&["failurePolicy", "matchPolicy"])
        .validate(webhook::validate),
    TypeRules::of("admissionregistration/v1.MutatingWebhook")
        .enums(&["failurePolicy", "matchPolicy", "reinvocationPolicy"])
        .validate(webhook::validate),
    TypeRules::of("admissionregistration/v1.ValidatingAdmissionPolicySpec").enums(&["failurePolicy"]),
    TypeRules::of("admissionregistration/v1.Validation").validate(webhook::validate_reason),
    TypeRules::of("admissionregistration/v1.MatchResources").enums(&["matchPolicy"]),
    TypeRules::of("admissionregistration/v1.WebhookClientConfig").validate(webhook::validate_client),
    TypeRules::of("admissionregistration/v1.RuleWithOperations").enums(&["scope"]).validate(webhook::validate_rule),
    TypeRules::of("admissionregistration/v1.NamedRuleWithOperations")
        .enums(&["scope"])
        .validate(webhook::validate_rule),
];

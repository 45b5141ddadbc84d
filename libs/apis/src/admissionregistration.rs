//! Rules of the admissionregistration group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod binding;
pub mod expressions;
mod match_conditions;
pub mod policy;
pub mod webhook;

/// The rules of the admissionregistration group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("admissionregistration/v1.ValidatingWebhook")
        .enums(&["failurePolicy", "matchPolicy"])
        .validate(webhook::validate)
        .create(match_conditions::of_webhook),
    TypeRules::of("admissionregistration/v1.MutatingWebhook")
        .enums(&["failurePolicy", "matchPolicy", "reinvocationPolicy"])
        .validate(webhook::validate)
        .create(match_conditions::of_webhook),
    TypeRules::of("admissionregistration/v1.ValidatingWebhookConfiguration")
        .validate_update(match_conditions::of_changed_webhooks),
    TypeRules::of("admissionregistration/v1.MutatingWebhookConfiguration")
        .validate_update(match_conditions::of_changed_webhooks),
    TypeRules::of("admissionregistration/v1.ValidatingAdmissionPolicySpec").enums(&["failurePolicy"]),
    TypeRules::of("admissionregistration/v1.ParamKind").validate(policy::validate_param_kind),
    TypeRules::of("admissionregistration/v1.ValidatingAdmissionPolicy")
        .after(policy::validate)
        .status(policy::validate_status),
    TypeRules::of("admissionregistration/v1.ParamRef")
        .validate(binding::validate_param_name)
        .after(binding::validate_param_ref),
    TypeRules::of("admissionregistration/v1.ValidatingAdmissionPolicyBindingSpec")
        .validate(binding::validate_policy_name)
        .after(binding::validate_actions),
    TypeRules::of("admissionregistration/v1.MatchResources").enums(&["matchPolicy"]),
    TypeRules::of("admissionregistration/v1.WebhookClientConfig").validate(webhook::validate_client),
    TypeRules::of("admissionregistration/v1.RuleWithOperations").enums(&["scope"]).validate(webhook::validate_rule),
    TypeRules::of("admissionregistration/v1.NamedRuleWithOperations")
        .enums(&["scope"])
        .validate(policy::validate_named_rule),
];

//! Validates the policies of a Job: the handling of failed pods, and the criteria of success.

use std::collections::BTreeSet;

use oarlock_meta::field::{Omit, Raw};
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::batch_v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
    SuccessPolicyRule,
};

use super::indexes;
use crate::rules::{Seen, non_negative, one_of, qualified, show};

/// The most rules of either policy, and the most patterns of a rule.
const MAX_RULES: usize = 20;
/// The most exit codes of a rule.
const MAX_CODES: usize = 255;
/// The longest text of indexes in bytes.
const MAX_INDEXES_BYTES: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Validates that a required value is one of the supported ones.
fn chosen(value: &str, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        let list = supported.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ");
        errors.push(FieldError::required(path, format!("valid values: [{list}]")));
    } else {
        one_of(value, supported, path, errors);
    }
}

/// Validates `spec.podFailurePolicy` (upstream `validatePodFailurePolicy`).
pub(super) fn failure(spec: JobSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = spec.pod_failure_policy() else { return };
    let rules = path.child("rules");
    if policy.rules().len() > MAX_RULES {
        errors.push(FieldError::too_many(&rules, policy.rules().len(), MAX_RULES));
    }
    let pod = spec.template().spec();
    let containers: Seen<&str> =
        pod.containers().iter().chain(pod.init_containers().iter()).map(|c| c.name()).collect();
    for (at, rule) in policy.rules().iter().enumerate() {
        failure_rule(spec, &containers, rule, &rules.index(at), errors);
    }
}

fn failure_rule(
    spec: JobSpec<'_>,
    containers: &Seen<&str>,
    rule: PodFailurePolicyRule<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let action = path.child("action");
    chosen(rule.action(), &ACTIONS, &action, errors);
    if rule.action() == "FailIndex" && spec.backoff_limit_per_index().is_none() {
        let text = "requires the backoffLimitPerIndex to be set";
        errors.push(FieldError::invalid(&action, rule.action(), text));
    }
    let conditions = rule.on_pod_conditions();
    if let Some(codes) = rule.on_exit_codes() {
        exit_codes(containers, codes, &path.child("onExitCodes"), errors);
    }
    let at = path.child("onPodConditions");
    if conditions.len() > MAX_RULES {
        errors.push(FieldError::too_many(&at, conditions.len(), MAX_RULES));
    }
    for (i, pattern) in conditions.iter().enumerate() {
        pod_condition(pattern, &at.index(i), errors);
    }
    let text = match (rule.on_exit_codes().is_some(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError::invalid(path, Omit, text));
}

fn pod_condition(pattern: PodFailurePolicyOnPodConditionsPattern<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    qualified(pattern.type_(), &path.child("type"), errors);
    chosen(pattern.status(), &STATUSES, &path.child("status"), errors);
}

fn exit_codes(
    containers: &Seen<&str>,
    codes: PodFailurePolicyOnExitCodesRequirement<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    chosen(codes.operator(), &OPERATORS, &path.child("operator"), errors);
    if let Some(name) = codes.container_name().filter(|name| !containers.contains(name)) {
        let text = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), name, text));
    }
    let (at, values) = (path.child("values"), codes.values());
    let shown = || Raw(if values.is_empty() { "null".to_owned() } else { show::items(values.values()) });
    if values.is_empty() {
        errors.push(FieldError::invalid(&at, shown(), "at least one value is required"));
    } else if values.len() > MAX_CODES {
        errors.push(FieldError::too_many(&at, values.len(), MAX_CODES));
    }
    let mut seen = BTreeSet::new();
    for (i, code) in values.iter().enumerate() {
        if code == 0 && codes.operator() == "In" {
            errors.push(FieldError::invalid(&at.index(i), code, "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(&at.index(i), code));
        }
    }
    if !values.iter().is_sorted() {
        errors.push(FieldError::invalid(&at, shown(), "must be ordered"));
    }
}

/// Validates `spec.successPolicy` of an indexed Job (upstream `validateSuccessPolicy`).
pub(super) fn success(spec: JobSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (Some(policy), Some(completions)) = (spec.success_policy(), spec.completions()) else { return };
    let at = path.child("rules");
    if policy.rules().is_empty() {
        let text = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&at, text));
    }
    if policy.rules().len() > MAX_RULES {
        errors.push(FieldError::too_many(&at, policy.rules().len(), MAX_RULES));
    }
    for (i, rule) in policy.rules().iter().enumerate() {
        success_rule(completions, rule, &at.index(i), errors);
    }
}

fn success_rule(completions: i64, rule: SuccessPolicyRule<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if rule.succeeded_indexes().is_none() && rule.succeeded_count().is_none() {
        let text = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, text));
    }
    let at = path.child("succeededIndexes");
    let total = rule.succeeded_indexes().map(|text| {
        if text.len() > MAX_INDEXES_BYTES {
            errors.push(FieldError::too_long(&at, MAX_INDEXES_BYTES));
        }
        let ranges = indexes::parse(text, completions).unwrap_or_else(|why| {
            errors.push(FieldError::invalid(&at, text, format!("error parsing succeededIndexes: {why}")));
            Vec::new()
        });
        indexes::total(&ranges)
    });
    let Some(count) = rule.succeeded_count() else { return };
    let at = path.child("succeededCount");
    non_negative(count, &at, errors);
    if count > completions {
        let text = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(&at, count, text));
    }
    if let Some(total) = total.filter(|total| count > *total) {
        let what = "the number of indexes in the specified succeededIndexes field";
        let text = format!("must be less than or equal to {total} ({what})");
        errors.push(FieldError::invalid(&at, count, text));
    }
}

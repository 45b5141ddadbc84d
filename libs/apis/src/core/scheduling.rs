//! Validation of scheduling constraints: tolerations, affinity, topology spread, scheduling gates.

use oarlock_meta::names::label_value_errors;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::core_v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec, PreferredSchedulingTerm,
    Toleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use oarlock_schema::views::{List, View, meta_v1};

use crate::rules::{Seen, each, label, one_of, qualified, subdomain};

/// Validates like upstream's `ValidateTolerations`.
pub fn validate_toleration(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let toleration = Toleration::new(node);
    let operator = path.child("operator");
    if toleration.key().is_empty() {
        if toleration.operator() != "Exists" {
            let text = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&operator, toleration.operator(), text));
        }
    } else {
        qualified(toleration.key(), &path.child("key"), errors);
    }
    if toleration.toleration_seconds().is_some() && toleration.effect() != "NoExecute" {
        let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), toleration.effect(), text));
    }
    match toleration.operator() {
        "" | "Equal" => {
            let wrong = label_value_errors(toleration.value());
            if !wrong.is_empty() {
                errors.push(FieldError::invalid(&operator, toleration.value(), wrong.join(";")));
            }
        }
        "Exists" if !toleration.value().is_empty() => {
            errors.push(FieldError::invalid(
                &operator,
                toleration.value(),
                "value must be empty when `operator` is 'Exists'",
            ));
        }
        "Exists" => {}
        // Known operators, but disabled with the feature gate TaintTolerationComparisonOperators.
        other @ ("Lt" | "Gt") => {
            errors.push(FieldError::not_supported(&operator, other, &["Equal", "Exists", "Lt", "Gt"]))
        }
        other => errors.push(FieldError::not_supported(&operator, other, &["Equal", "Exists"])),
    }
    if !toleration.effect().is_empty() {
        one_of(toleration.effect(), &["NoSchedule", "PreferNoSchedule", "NoExecute"], &path.child("effect"), errors);
    }
}

/// Validates the required nodes of a pod or volume (upstream `ValidateNodeSelector`).
pub fn validate_node_selector(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let terms = path.child("nodeSelectorTerms");
    let selector = NodeSelector::new(node);
    if selector.node_selector_terms().is_empty() {
        errors.push(FieldError::required(&terms, "must have at least one node selector term"));
    }
    for (i, term) in selector.node_selector_terms().iter().enumerate() {
        node_term(term, true, &terms.index(i), errors);
    }
}

/// Validates the preferred nodes of a pod. Values that are no valid labels are accepted, because they merely match nothing.
pub fn validate_preferred(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let term = PreferredSchedulingTerm::new(node);
    weight(term.weight(), path, errors);
    node_term(term.preference(), false, &path.child("preference"), errors);
}

fn weight(n: i64, path: &Path<'_>, errors: &mut ErrorList) {
    if !(1..=100).contains(&n) {
        errors.push(FieldError::invalid(&path.child("weight"), n, "must be in the range 1-100"));
    }
}

fn node_term(term: NodeSelectorTerm<'_>, strict: bool, path: &Path<'_>, errors: &mut ErrorList) {
    for (i, requirement) in term.match_expressions().iter().enumerate() {
        node_requirement(requirement, strict, &path.child("matchExpressions").index(i), errors);
    }
    for (i, requirement) in term.match_fields().iter().enumerate() {
        field_requirement(requirement, &path.child("matchFields").index(i), errors);
    }
}

fn node_requirement(requirement: NodeSelectorRequirement<'_>, strict: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let values = path.child("values");
    let given = requirement.values();
    match requirement.operator() {
        "In" | "NotIn" if given.is_empty() => {
            errors.push(FieldError::required(&values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !given.is_empty() => {
            errors.push(FieldError::forbidden(
                &values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ));
        }
        "Gt" | "Lt" if given.len() != 1 => {
            errors
                .push(FieldError::required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    qualified(requirement.key(), &path.child("key"), errors);
    for (i, value) in given.iter().enumerate().filter(|_| strict) {
        each(label_value_errors(value), value, &values.index(i), errors);
    }
}

fn field_requirement(requirement: NodeSelectorRequirement<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let values = path.child("values");
    match requirement.operator() {
        "In" | "NotIn" if requirement.values().len() != 1 => {
            let text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&values, text));
        }
        "In" | "NotIn" => {}
        other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    if requirement.key() == "metadata.name" {
        for (i, value) in requirement.values().iter().enumerate() {
            subdomain(value, &values.index(i), errors);
        }
    } else {
        errors.push(FieldError::invalid(&path.child("key"), requirement.key(), "not a valid field selector key"));
    }
}

/// Validates like upstream's `validatePodAffinityTerm`.
pub fn validate_pod_term(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let term = PodAffinityTerm::new(node);
    for name in term.namespaces().iter() {
        label(name, &path.child("namespace"), errors);
    }
    label_keys(term.match_label_keys(), "matchLabelKeys", term.label_selector(), path, errors);
    label_keys(term.mismatch_label_keys(), "mismatchLabelKeys", term.label_selector(), path, errors);
    super::label_keys::once(term.match_label_keys(), term.label_selector(), path, errors);
    let mismatched: Seen<&str> = term.mismatch_label_keys().iter().collect();
    for (i, key) in term.match_label_keys().iter().enumerate() {
        if mismatched.contains(&key) {
            let text = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(&path.child("matchLabelKeys").index(i), key, text));
        }
    }
    if term.topology_key().is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
    }
    qualified(term.topology_key(), &path.child("topologyKey"), errors);
}

/// Validates the weight of a preference.
pub fn validate_weighted(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    weight(WeightedPodAffinityTerm::new(node).weight(), path, errors);
}

fn label_keys(
    keys: List<'_, &str>,
    field: &str,
    selector: Option<meta_v1::LabelSelector<'_>>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if keys.is_empty() {
        return;
    }
    let at = path.child(field);
    if selector.is_none() {
        errors.push(FieldError::forbidden(&at, "must not be specified when labelSelector is not set"));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        qualified(key, &at.index(i), errors);
    }
}

/// Validates like upstream's `validateTopologySpreadConstraints`.
pub(super) fn spread(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let all = spec.topology_spread_constraints();
    let key = |one: TopologySpreadConstraint<'_>| (one.topology_key().to_owned(), one.when_unsatisfiable().to_owned());
    // Upstream reports the earlier of two equal constraints.
    let mut seen = Seen::new();
    let comes_again: Vec<bool> = all.iter().rev().map(|one| seen.is_repeat(key(one))).collect();
    for ((i, constraint), again) in all.iter().enumerate().zip(comes_again.into_iter().rev()) {
        let at = path.index(i);
        one_spread(constraint, &at, errors);
        if again {
            let shown = format!("{{{}, {}}}", constraint.topology_key(), constraint.when_unsatisfiable());
            errors.push(FieldError::duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), shown));
        }
    }
}

fn one_spread(constraint: TopologySpreadConstraint<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let positive = "must be greater than zero";
    if constraint.max_skew() <= 0 {
        errors.push(FieldError::invalid(&path.child("maxSkew"), constraint.max_skew(), positive));
    }
    if constraint.topology_key().is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
    }
    let action = constraint.when_unsatisfiable();
    one_of(action, &["DoNotSchedule", "ScheduleAnyway"], &path.child("whenUnsatisfiable"), errors);
    if let Some(n) = constraint.min_domains() {
        let at = path.child("minDomains");
        if n <= 0 {
            errors.push(FieldError::invalid(&at, n, positive));
        }
        if action != "DoNotSchedule" {
            let text = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.push(FieldError::invalid(&at, n, text));
        }
    }
    let policies = [
        ("nodeAffinityPolicy", constraint.node_affinity_policy()),
        ("nodeTaintsPolicy", constraint.node_taints_policy()),
    ];
    for (field, policy) in policies {
        if let Some(policy) = policy {
            one_of(policy, &["Honor", "Ignore"], &path.child(field), errors);
        }
    }
    label_keys(constraint.match_label_keys(), "matchLabelKeys", constraint.label_selector(), path, errors);
    super::label_keys::once(constraint.match_label_keys(), constraint.label_selector(), path, errors);
}

/// Validates the scheduling gates.
pub(super) fn gates(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: Seen<&str> = Seen::new();
    for (i, gate) in spec.scheduling_gates().iter().enumerate() {
        qualified(gate.name(), &path.index(i), errors);
        if seen.contains(&gate.name()) {
            errors.push(FieldError::duplicate(&path.index(i), gate.name()));
        }
        seen.push(gate.name());
    }
}

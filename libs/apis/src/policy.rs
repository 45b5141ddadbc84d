//! Rules of the policy group: defaults, validation and warnings.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::policy_v1::PodDisruptionBudgetSpec;

use crate::apps::workload::count_or_share;
use crate::rules::{show, status};
use crate::type_rules::TypeRules;

/// The rules of the policy group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("policy/v1.PodDisruptionBudget").status(validate_status),
    TypeRules::of("policy/v1.PodDisruptionBudgetSpec").enums(&["unhealthyPodEvictionPolicy"]).validate(budget),
];

/// Validates like upstream's `ValidatePodDisruptionBudgetSpec`.
fn budget(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = PodDisruptionBudgetSpec::new(node);
    if spec.min_available().is_some() && spec.max_unavailable().is_some() {
        let shown = Raw(show::internal(node));
        errors.push(FieldError::invalid(path, shown, "minAvailable and maxUnavailable cannot be both set"));
        return;
    }
    count_or_share(spec.min_available(), true, &path.child("minAvailable"), errors);
    count_or_share(spec.max_unavailable(), true, &path.child("maxUnavailable"), errors);
}

/// Validates like upstream's `ValidatePodDisruptionBudgetStatusUpdate`.
fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let (path, now) = (Path::new("status"), status::of(new));
    status::conditions(now, &path.child("conditions"), errors);
    let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    status::non_negative(now, &counts, &path, errors);
}

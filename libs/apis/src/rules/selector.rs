//! Validates and evaluates label selectors (upstream `ValidateLabelSelector`).

use oarlock_meta::{ErrorList, FieldError, Path, names};
use oarlock_schema::Struct;
use oarlock_schema::views::{View, meta_v1};

/// Validates the labels that must match.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let selector = meta_v1::LabelSelector::new(node);
    super::labels(selector.match_labels(), &path.child("matchLabels"), errors);
}

/// Validates one requirement of a label selector.
pub fn validate_requirement(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let requirement = meta_v1::LabelSelectorRequirement::new(node);
    let values = path.child("values");
    match requirement.operator() {
        "In" | "NotIn" if requirement.values().is_empty() => {
            errors.push(FieldError::required(&values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !requirement.values().is_empty() => {
            errors.push(FieldError::forbidden(
                &values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    super::qualified(requirement.key(), &path.child("key"), errors);
    for (i, value) in requirement.values().iter().enumerate() {
        super::each(names::label_value_errors(value), value, &values.index(i), errors);
    }
}

/// Whether a selector has no requirement and so matches everything.
#[must_use]
pub fn is_empty(selector: meta_v1::LabelSelector<'_>) -> bool {
    selector.match_labels().is_empty() && selector.match_expressions().is_empty()
}

/// Whether a selector matches labels; an invalid one matches nothing.
#[must_use]
pub fn matches(selector: meta_v1::LabelSelector<'_>, labels: oarlock_schema::views::Map<'_, &str>) -> bool {
    let pairs = selector.match_labels().iter().all(|(key, value)| labels.get(key) == Some(value));
    pairs
        && selector.match_expressions().iter().all(|r| {
            let have = labels.get(r.key());
            let listed = have.is_some_and(|have| r.values().iter().any(|v| v == have));
            match r.operator() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => have.is_some(),
                "DoesNotExist" => have.is_none(),
                _ => false,
            }
        })
}

/// Whether a selector is valid.
#[must_use]
pub fn well_formed(chosen: meta_v1::LabelSelector<'_>) -> bool {
    let mut errors = ErrorList::new();
    if let Some(node) = chosen.node() {
        validate(node, &Path::ROOT, &mut errors);
    }
    for requirement in chosen.match_expressions().iter().filter_map(View::node) {
        validate_requirement(requirement, &Path::ROOT, &mut errors);
    }
    errors.is_empty()
}

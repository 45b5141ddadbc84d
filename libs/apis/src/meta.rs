//! The meta group: types that stand in many others.

use crate::rules::selector;
use crate::type_rules::TypeRules;

/// Rows of the meta group.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("meta/v1.LabelSelector").validate(selector::validate),
    TypeRules::of("meta/v1.LabelSelectorRequirement").validate(selector::validate_requirement),
];

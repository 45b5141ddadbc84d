//! Rules of the meta group, whose types occur in many others.

use crate::rules::selector;
use crate::type_rules::TypeRules;

/// The rules of the meta group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("meta/v1.LabelSelector").validate(selector::validate),
    TypeRules::of("meta/v1.LabelSelectorRequirement").validate(selector::validate_requirement),
];

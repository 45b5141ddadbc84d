//! Rules of the apiextensions group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod custom_resource_definition;

/// The rules of the apiextensions group's types, one row per type.
pub const TYPES: &[TypeRules] = &[TypeRules::of("apiextensions/v1.CustomResourceDefinition")
    .default(custom_resource_definition::default)
    .validate(custom_resource_definition::validate)
    .status(custom_resource_definition::validate_status)];

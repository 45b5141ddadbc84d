//! The apiextensions group.

use crate::type_rules::TypeRules;

pub mod custom_resource_definition;

/// Rows of the apiextensions group.
pub const TYPES: &[TypeRules] = &[TypeRules::of("apiextensions/v1.CustomResourceDefinition")
    .default(custom_resource_definition::default)
    .validate(custom_resource_definition::validate)
    .status(custom_resource_definition::validate_status)];

//! Rules of the rbac group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod binding;
pub mod role;
pub mod subject;

/// The rules of the rbac group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("rbac/v1.Subject").default(subject::default),
    TypeRules::of("rbac/v1.Role").validate(role::validate),
    TypeRules::of("rbac/v1.ClusterRole").validate(role::validate),
    TypeRules::of("rbac/v1.RoleBinding").validate(binding::validate).validate_update(binding::validate_update),
    TypeRules::of("rbac/v1.ClusterRoleBinding").validate(binding::validate).validate_update(binding::validate_update),
];

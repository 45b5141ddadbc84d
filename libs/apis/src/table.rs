//! The table of rules: one row per type with rules, and one row per kind whose name or change rules differ from the common ones.

use crate::kind::{self, KindRules};
use crate::type_rules::TypeRules;

/// The rows of all types, by group.
pub(crate) const TYPES: &[&[TypeRules]] = &[
    crate::admissionregistration::TYPES,
    crate::apiextensions::TYPES,
    crate::apiregistration::TYPES,
    crate::apps::TYPES,
    crate::autoscaling::TYPES,
    crate::batch::TYPES,
    crate::certificates::TYPES,
    crate::core::TYPES,
    crate::discovery::TYPES,
    crate::flowcontrol::TYPES,
    crate::core::POD_TYPES,
    crate::meta::TYPES,
    crate::networking::TYPES,
    crate::coordination::TYPES,
    crate::policy::TYPES,
    crate::rbac::TYPES,
    crate::scheduling::TYPES,
    crate::storage::TYPES,
    crate::resource::TYPES,
];

/// The rows of kinds with rules of their own, by group.
pub(crate) const KINDS: &[&[KindRules]] = &[kind::NAME_FORMAT_RULES];

/// Returns the rows that name a type or field that the schema lacks; only a spelling mistake makes the list non-empty.
#[must_use]
pub fn unknown_names() -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, field, _) in crate::disabled::GATE_EXCEPTIONS {
        if oarlock_schema::type_named(name).is_none_or(|ty| ty.field(field).is_none()) {
            unknown.push(format!("{name}.{field}"));
        }
    }
    for row in TYPES.iter().flat_map(|rows| rows.iter()) {
        let Some(ty) = oarlock_schema::type_named(row.ty) else {
            unknown.push(row.ty.to_owned());
            continue;
        };
        let fields = row.required.iter().chain(row.enums).chain(row.non_negative).chain(row.immutable);
        unknown.extend(fields.filter(|f| ty.field(f).is_none()).map(|f| format!("{}.{f}", row.ty)));
        let closed = |f: &&&str| ty.field(f).is_some_and(|(_, def)| def.allowed.is_empty());
        unknown.extend(row.enums.iter().filter(closed).map(|f| format!("{}.{f} has no values", row.ty)));
    }
    unknown
}

//! Rules of the coordination group: defaults, validation and warnings.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::coordination_v1::LeaseSpec;

use crate::type_rules::TypeRules;

/// The rules of the coordination group's types, one row per type.
pub const TYPES: &[TypeRules] =
    &[TypeRules::of("coordination/v1.LeaseSpec").non_negative(&["leaseTransitions"]).validate(lease)];

/// Validates like upstream's `ValidateLeaseSpec`.
fn lease(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(seconds) = LeaseSpec::new(node).lease_duration_seconds().filter(|s| *s <= 0) {
        errors.push(FieldError::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
}

//! Rules of the scheduling group: defaults, validation and warnings.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::scheduling_v1::PriorityClass;

use crate::type_rules::TypeRules;

/// The rules of the scheduling group's types, one row per type.
pub const TYPES: &[TypeRules] =
    &[TypeRules::of("scheduling/v1.PriorityClass").validate(class).validate_update(class_update)];

/// Kubernetes' own priority classes, with their required values.
const SYSTEM_CLASSES: &[(&str, i64)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
/// The highest value of any other class.
const MAX_USER_VALUE: i64 = 1_000_000_000;

/// Validates like upstream's `ValidatePriorityClass`.
fn class(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let class = PriorityClass::new(node);
    let name = class.metadata().name();
    if name.starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(system, _)| *system == name);
        let wrong = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, value)) if *value != class.value() => {
                Some(format!("value of {name} PriorityClass must be {value}"))
            }
            Some(_) if class.global_default() => Some(format!("globalDefault of {name} must be false")),
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            let at = path.child("metadata");
            let text =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {wrong}");
            errors.push(FieldError::forbidden(&at.child("name"), text));
        }
    } else if class.value() > MAX_USER_VALUE {
        let text = format!("maximum allowed value of a user defined priority is {MAX_USER_VALUE}");
        errors.push(FieldError::forbidden(&path.child("value"), text));
    }
    crate::rules::preemption(class.preemption_policy(), &path.child("preemptionPolicy"), errors);
}

/// Validates like upstream's `ValidatePriorityClassUpdate`.
fn class_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if PriorityClass::new(new).value() != PriorityClass::new(old).value() {
        errors.push(FieldError::forbidden(&path.child("value"), "may not be changed in an update."));
    }
    let policy = "preemptionPolicy";
    crate::rules::immutable(new.get(policy), old.get(policy), &path.child(policy), errors);
}

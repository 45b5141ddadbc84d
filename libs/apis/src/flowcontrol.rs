//! Rules of the flowcontrol group's statuses.

use std::collections::HashSet;

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::{Struct, Value};

use crate::rules::status;
use crate::type_rules::TypeRules;

/// The rules of the flowcontrol group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("flowcontrol/v1.FlowSchema").status(conditions),
    TypeRules::of("flowcontrol/v1.PriorityLevelConfiguration").status(conditions),
];

/// Validates that each condition type occurs once (upstream `ValidateFlowSchemaStatus`, `ValidatePriorityLevelConfigurationStatus`).
fn conditions(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let (path, mut seen) = (Path::new("status"), HashSet::new());
    let path = path.child("conditions");
    let list = status::of(new).and_then(|status| status.get("conditions")).map_or(&[][..], Value::items);
    for (i, condition) in list.iter().enumerate() {
        let at = path.index(i);
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or("");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
        crate::rules::required(kind, &at.child("type"), errors);
    }
}

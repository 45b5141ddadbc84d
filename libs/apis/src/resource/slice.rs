//! Defaults and validation of ResourceSlice.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::resource_v1::ResourceSliceSpec;

/// Validates the location of the devices (the first part of upstream's `validateResourceSliceSpec`).
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if ResourceSliceSpec::new(node).node_name() == Some("") {
        let text = "must be either unset or set to a non-empty string";
        errors.push(FieldError::invalid(&path.child("nodeName"), "", text));
    }
}

/// Validates that the location of the devices does not change (upstream `ValidateResourceSliceUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let pool = ["pool", "name"];
    crate::rules::immutable(new.at(&pool), old.at(&pool), &path.child("pool").child("name"), errors);
    for field in ["driver", "nodeName"] {
        crate::rules::immutable(new.get(field), old.get(field), &path.child(field), errors);
    }
}

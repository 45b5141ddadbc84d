//! The storage group.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::storage_v1::StorageClass;

use crate::rules::{each, one_of};
use crate::table::TypeRules;

/// Rows of the storage group.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("storage/v1.StorageClass")
        .required(&["provisioner"])
        .immutable(&["volumeBindingMode"])
        .validate(class)
        .validate_update(class_update),
    TypeRules::of("storage/v1.CSINodeDriver").required(&["name", "nodeID"]),
    TypeRules::of("storage/v1.VolumeAttachmentSpec").required(&["attacher", "nodeName"]),
];

/// Upstream `ValidateStorageClass`.
fn class(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let class = StorageClass::new(node);
    if !class.provisioner().is_empty() {
        let wrong = oarlock_meta::names::label_key_errors(&class.provisioner().to_ascii_lowercase());
        each(wrong, class.provisioner(), &path.child("provisioner"), errors);
    }
    let parameters = path.child("parameters");
    if class.parameters().len() > 512 {
        errors.push(FieldError::too_long(&parameters, 512));
    }
    let mut size = 0;
    for (key, value) in class.parameters().iter() {
        if key.is_empty() {
            errors.push(FieldError::invalid(&parameters, key, "field can not be empty."));
        }
        size += key.len() + value.len();
    }
    if size > 256 * 1024 {
        errors.push(FieldError::too_long(&parameters, 256 * 1024));
    }
    if let Some(policy) = class.reclaim_policy() {
        one_of(policy, &["Delete", "Retain"], &path.child("reclaimPolicy"), errors);
    }
    let at = path.child("volumeBindingMode");
    match class.volume_binding_mode() {
        None => errors.push(FieldError::required(&at, "")),
        Some(mode) => one_of(mode, &["Immediate", "WaitForFirstConsumer"], &at, errors),
    }
}

/// Upstream `ValidateStorageClassUpdate`.
fn class_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if new.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(&path.child(field), format!("updates to {field} are forbidden.")));
        }
    }
}

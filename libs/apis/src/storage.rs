//! Rules of the storage group: defaults, validation and warnings.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::storage_v1::{
    CSIDriverSpec, StorageClass, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus, VolumeError,
};

use crate::core::volume::driver_name;
use crate::rules::{each, one_of, subdomain};
use crate::type_rules::TypeRules;

/// The rules of the storage group's types, one row per type.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("storage/v1.StorageClass").required(&["provisioner"]).validate(class).validate_update(class_update),
    TypeRules::of("storage/v1.CSIDriverSpec").validate(driver),
    TypeRules::of("storage/v1.CSINodeDriver").required(&["name", "nodeID"]),
    TypeRules::of("storage/v1.VolumeAttributesClass").required(&["driverName"]).validate_update(attributes_update),
    TypeRules::of("storage/v1.VolumeAttachment").immutable(&["spec"]).whole_status(),
    TypeRules::of("storage/v1.VolumeAttachmentStatus").validate(attached),
    TypeRules::of("storage/v1.VolumeError").validate(volume_error),
    TypeRules::of("storage/v1.VolumeAttachmentSpec").required(&["attacher"]).validate(attachment),
    TypeRules::of("storage/v1.VolumeAttachmentSource").validate(attachment_source),
];

/// Validates like upstream's `ValidateStorageClass`.
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
    if let Some(policy) = class.reclaim_policy().filter(|policy| !policy.is_empty()) {
        one_of(policy, &["Delete", "Retain"], &path.child("reclaimPolicy"), errors);
    }
    let at = path.child("volumeBindingMode");
    match class.volume_binding_mode() {
        None => errors.push(FieldError::required(&at, "")),
        Some(mode) => one_of(mode, &["Immediate", "WaitForFirstConsumer"], &at, errors),
    }
}

/// Validates like upstream's `ValidateStorageClassUpdate`.
fn class_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    fixed(&["parameters", "provisioner", "reclaimPolicy"], new, old, path, errors);
    let mode = "volumeBindingMode";
    crate::rules::immutable(new.get(mode), old.get(mode), &path.child(mode), errors);
}

/// Validates like upstream's `ValidateVolumeAttributesClassUpdate`.
fn attributes_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    fixed(&["driverName", "parameters"], new, old, path, errors);
}

fn fixed(fields: &[&str], new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    for field in fields.iter().filter(|field| !oarlock_schema::canonical::same(new.get(field), old.get(field))) {
        errors.push(FieldError::forbidden(&path.child(field), format!("updates to {field} are forbidden.")));
    }
}

/// Validates like upstream's `validateVolumeAttachmentSpec`.
fn attachment(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = VolumeAttachmentSpec::new(node);
    subdomain(spec.node_name(), &path.child("nodeName"), errors);
    driver_name(spec.attacher(), &path.child("attacher"), errors);
}

/// The most bytes of a driver's metadata about an attached volume.
const MAX_METADATA_BYTES: usize = 256 * 1024;
/// The longest error message of a driver in bytes.
const MAX_ERROR_MESSAGE_BYTES: usize = 1024;

/// Validates like upstream's `validateAttachmentMetadata`.
fn attached(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let metadata = VolumeAttachmentStatus::new(node).attachment_metadata();
    if metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_METADATA_BYTES {
        errors.push(FieldError::too_long(&path.child("attachmentMetadata"), MAX_METADATA_BYTES));
    }
}

/// Validates like upstream's `validateVolumeError`, whose error for a too long message states the bound of the metadata.
fn volume_error(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let error = VolumeError::new(node);
    if error.message().len() > MAX_ERROR_MESSAGE_BYTES {
        errors.push(FieldError::too_long(&path.child("message"), MAX_METADATA_BYTES));
    }
    if let Some(code) = error.error_code().filter(|code| *code < 0) {
        crate::rules::range(code, 0, i64::from(i32::MAX), &path.child("errorCode"), errors);
    }
}

/// Validates that an attachment has either a PersistentVolume or an inline volume.
fn attachment_source(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = VolumeAttachmentSource::new(node);
    let both = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.inline_volume_spec().and_then(View::node), source.persistent_volume_name()) {
        (None, None) => errors.push(FieldError::required(path, both)),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(path, both)),
        (None, Some("")) => {
            let at = path.child("persistentVolumeName");
            errors.push(FieldError::required(&at, "must specify non empty persistentVolumeName"));
        }
        (None, Some(name)) => subdomain(name, &path.child("persistentVolumeName"), errors),
        (Some(volume), None) => {
            crate::core::persistent_volume::validate_inline(volume, &path.child("inlineVolumeSpec"), errors);
        }
    }
}

/// Validates like upstream's `validateCSIDriverSpec`, for fields without a default.
fn driver(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = CSIDriverSpec::new(node);
    if let Some(policy) = spec.fs_group_policy() {
        one_of(policy, &["File", "None", "ReadWriteOnceWithFSType"], &path.child("fsGroupPolicy"), errors);
    }
    if let Some(seconds) = spec.node_allocatable_update_period_seconds().filter(|s| *s < 10) {
        let at = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(FieldError::invalid(&at, seconds, "must be greater than or equal to 10 seconds"));
    }
    if let Some(secrets) = spec.service_account_token_in_secrets().filter(|_| spec.token_requests().is_empty()) {
        let text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), secrets, text));
    }
}

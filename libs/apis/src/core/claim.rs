//! Defaults and validation of PersistentVolumeClaim.

use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path, Quantity};
use oarlock_schema::Struct;
use oarlock_schema::views::List;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};

use crate::rules::{one_of, qualified, subdomain};

/// Access modes, in the order of error messages.
const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Validates the access modes of a volume; upstream's paths leave the index out.
pub(super) fn access_modes(modes: List<'_, &str>, text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if modes.is_empty() {
        errors.push(FieldError::required(path, text));
    }
    for mode in modes.iter() {
        one_of(mode, MODES, path, errors);
    }
    let alone = modes.iter().any(|m| m == "ReadWriteOncePod");
    if alone && modes.iter().any(|m| m != "ReadWriteOncePod" && MODES.contains(&m)) {
        errors.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Validates an amount above zero.
pub(super) fn positive(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if Quantity::parse(text).is_ok_and(|q| q.signum() <= 0) {
        errors.push(FieldError::invalid(path, text, "must be greater than zero"));
    }
}

/// Validates like upstream's `ValidatePersistentVolumeClaimSpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = PersistentVolumeClaimSpec::new(node);
    access_modes(spec.access_modes(), "at least 1 access mode is required", &path.child("accessModes"), errors);
    let resources = path.child("resources");
    let storage = resources.key("storage");
    match spec.resources().requests().get("storage") {
        None => errors.push(FieldError::required(&storage, "")),
        Some(text) => positive(text, &storage, errors),
    }
    let classes = [
        ("storageClassName", spec.storage_class_name()),
        ("volumeAttributesClassName", spec.volume_attributes_class_name()),
    ];
    for (field, class) in classes {
        if let Some(class) = class.filter(|c| !c.is_empty()) {
            subdomain(class, &path.child(field), errors);
        }
    }
    if let Some(source) = spec.data_source() {
        let at = path.child("dataSource");
        crate::rules::required(source.name(), &at.child("name"), errors);
        crate::rules::required(source.kind(), &at.child("kind"), errors);
        if source.api_group().unwrap_or("").is_empty() && source.kind() != "PersistentVolumeClaim" {
            let text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(FieldError::invalid(&at, source.kind(), text));
        }
    }
}

/// Validates an update. Only the requested storage and the attributes class may change, and only for a bound claim (upstream
/// `ValidatePersistentVolumeClaimUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (PersistentVolumeClaim::new(new), PersistentVolumeClaim::new(old));
    let at = path.child("spec");
    let bound = now.status().phase() == "Bound" || before.status().phase() == "Bound";
    let (Some(a), Some(b)) = (now.spec().node(), before.spec().node()) else { return };
    let mut masked = a.clone();
    let mut copy = |field: &str| match b.get(field) {
        Some(value) => drop(masked.set_name(field, value.clone())),
        None => drop(masked.remove_name(field)),
    };
    if before.spec().volume_name().is_empty() {
        copy("volumeName");
    }
    if before.spec().storage_class_name().is_none() {
        copy("storageClassName");
    }
    if bound {
        copy("resources");
    }
    copy("volumeAttributesClassName");
    if masked != *b {
        let text =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden(&at, text));
    }
    let size = |c: PersistentVolumeClaim<'_>| {
        c.spec().resources().requests().get("storage").and_then(|t| Quantity::parse(t).ok())
    };
    if bound && size(now).zip(size(before)).is_some_and(|(a, b)| a < b) {
        let resources = at.child("resources");
        let status = now.status().capacity().get("storage").and_then(|t| Quantity::parse(t).ok());
        let failed = status.zip(size(now)).is_some_and(|(have, want)| want > have);
        if !failed {
            errors.push(FieldError::forbidden(
                &resources.child("requests").child("storage"),
                "field can not be less than status.capacity",
            ));
        }
    }
}

/// States of a resize, in the order of error messages.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Validates like upstream's `ValidatePersistentVolumeClaimStatusUpdate`. For an unknown state of a resize the error's value is the resource's name, as upstream has it.
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    let (status, path) = (PersistentVolumeClaim::new(new).status(), Path::new("status"));
    let at = path.child("capacity");
    for (name, text) in status.capacity().iter() {
        basic(text, &at.key(name), errors);
    }
    let at = path.child("allocatedResourceStatuses");
    for (name, state) in status.allocated_resource_statuses().iter() {
        resource(name, &at, errors);
        if !RESIZES.contains(&state) {
            errors.push(FieldError::not_supported(&at, name, RESIZES));
        }
    }
    let at = path.child("allocatedResources");
    for (name, text) in status.allocated_resources().iter() {
        if resource(name, &at, errors) && basic(text, &at.key(name), errors) {
            super::resources::amount("storage", text, &at.key(name), errors);
        }
    }
}

/// Validates that a quantity is not negative (upstream `validateBasicResource`).
fn basic(text: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let below = Quantity::parse(text).ok().map(|amount| amount.value()).filter(|n| *n < 0);
    if let Some(n) = below {
        errors.push(FieldError::invalid(path, n, "must be a valid resource quantity"));
    }
    below.is_none()
}

/// Validates a resource name: of Kubernetes' own resources a claim may name only storage (upstream `validatePersistentVolumeClaimResourceKey`).
fn resource(name: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    qualified(name, path, errors);
    if errors.len() == before && super::resources::native(name) && name != "storage" {
        errors.push(FieldError::not_supported(path, name, &["storage"]));
    }
    errors.len() == before
}

/// Warns like upstream's `GetWarningsForPersistentVolumeClaim`. For claim templates of StatefulSets upstream checks the spec only, and the paths omit its position.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let claim = PersistentVolumeClaim::new(node);
    let old = "volume.beta.kubernetes.io/storage-class";
    let whole = path.to_string().is_empty();
    if whole && claim.metadata().annotations().get(old).is_some() {
        let at = path.child("metadata");
        let at = at.child("annotations");
        texts.push(format!("{}: deprecated since v1.8; use \"storageClassName\" attribute instead", at.key(old)));
    }
    let (resources, spec) = (claim.spec().resources(), path.child("spec"));
    let at = if whole { &spec } else { path }.child("resources");
    for (field, list) in [("requests", resources.requests()), ("limits", resources.limits())] {
        let Some(text) = list.get("storage") else { continue };
        if Quantity::parse(text).is_ok_and(|amount| amount.milli_value() % 1000 != 0) {
            let at = at.child(field);
            let shown = quote(text);
            texts.push(format!("{}: fractional byte value {shown} is invalid, must be an integer", at.key("storage")));
        }
    }
}

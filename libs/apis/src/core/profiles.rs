//! Validation of seccomp and AppArmor profiles.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{AppArmorProfile, SeccompProfile};

use crate::rules::{one_of, show};

const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Validates like upstream's `validateSeccompProfileField`.
pub fn validate_seccomp(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let profile = SeccompProfile::new(node);
    let (kind, file) = (path.child("type"), path.child("localhostProfile"));
    match profile.type_() {
        "" => errors.push(FieldError::required(&kind, "type is required when seccompProfile is set")),
        other => one_of(other, TYPES, &kind, errors),
    }
    match (profile.type_(), profile.localhost_profile()) {
        ("Localhost", None) => errors.push(FieldError::required(&file, "must be set when seccomp type is Localhost")),
        ("Localhost", Some(name)) => super::volume::profile(name, &file, errors),
        (_, Some(_)) => {
            let shown = Raw(show::internal(node));
            errors.push(FieldError::invalid(&file, shown, "can only be set when seccomp type is Localhost"));
        }
        (_, None) => {}
    }
}

/// Validates like upstream's `ValidateAppArmorProfileField`.
pub fn validate_app_armor(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let profile = AppArmorProfile::new(node);
    let (kind, file) = (path.child("type"), path.child("localhostProfile"));
    match (profile.type_(), profile.localhost_profile()) {
        ("Localhost", None) => errors.push(FieldError::required(&file, "must be set when AppArmor type is Localhost")),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.push(FieldError::invalid(&file, name, "must not be padded with whitespace"));
            } else if name.is_empty() {
                errors.push(FieldError::required(&file, "must be set when AppArmor type is Localhost"));
            }
            if name.len() > 4095 {
                errors.push(FieldError::too_long(&file, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.push(FieldError::invalid(&file, name, "can only be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.push(FieldError::required(&kind, "type is required when appArmorProfile is set")),
        (other, _) => errors.push(FieldError::not_supported(&kind, other, TYPES)),
    }
}

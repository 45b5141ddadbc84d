//! Building blocks of rules: name formats and checks, with upstream's messages.

use oarlock_meta::field::BadValue;
use oarlock_meta::{ErrorList, FieldError, Path, names};
use oarlock_schema::Value;
use oarlock_schema::views::Map;

pub(crate) use seen::Seen;

pub mod address;
pub mod formats;
pub mod image;
pub mod object_meta;
mod seen;
pub mod selector;
pub mod show;
pub mod status;

/// Upstream `IsNegativeErrorMsg`.
pub const NON_NEGATIVE: &str = "must be greater than or equal to 0";
/// Upstream `FieldImmutableErrorMsg`.
pub const IMMUTABLE: &str = "field is immutable";
/// Upstream `fileModeErrorMsg`.
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Validates that a value does not change (upstream `ValidateImmutableField`).
pub fn immutable(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    if !oarlock_schema::canonical::same(new, old) {
        errors.push(FieldError::invalid(path, show::internal_value(new), IMMUTABLE));
    }
}

/// Reports each text as one error about the value.
pub fn each(texts: Vec<String>, value: impl BadValue, path: &Path<'_>, errors: &mut ErrorList) {
    for text in texts {
        errors.push(FieldError::invalid(path, &value, text));
    }
}

/// Validates an RFC 1123 label.
pub fn label(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    each(formats::dns1123_label(value), value, path, errors);
}

/// Validates an RFC 1123 subdomain.
pub fn subdomain(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    each(names::subdomain_errors(value), value, path, errors);
}

/// Validates an optional name, an RFC 1123 subdomain.
pub fn optional_subdomain(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !value.is_empty() {
        subdomain(value, path, errors);
    }
}

/// Validates a name with an optional domain, such as a label key.
pub fn qualified(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    each(names::label_key_errors(value), value, path, errors);
}

/// Validates a map of labels (upstream `ValidateLabels`).
pub fn labels(map: Map<'_, &str>, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in map.iter() {
        qualified(key, path, errors);
        each(names::label_value_errors(value), value, path, errors);
    }
}

/// Validates that a text is not empty.
pub fn required(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
}

/// Validates a number within bounds, both included.
pub fn range(n: i64, low: i64, high: i64, path: &Path<'_>, errors: &mut ErrorList) {
    if n < low || n > high {
        errors.push(FieldError::invalid(path, n, format!("must be between {low} and {high}, inclusive")));
    }
}

/// Validates a port number.
pub fn port(n: i64, path: &Path<'_>, errors: &mut ErrorList) {
    range(n, 1, 65_535, path, errors);
}

/// Validates a number that is at least zero.
pub fn non_negative(n: i64, path: &Path<'_>, errors: &mut ErrorList) {
    if n < 0 {
        errors.push(FieldError::invalid(path, n, NON_NEGATIVE));
    }
}

/// Validates that a value is one of the supported texts, which the error shows in this order.
pub fn one_of(value: &str, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

/// Validates whether pods of a priority may preempt others (upstream `ValidatePreemptionPolicy`).
pub fn preemption(policy: Option<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    match policy {
        Some("") => errors.push(FieldError::required(path, "")),
        Some(policy) => one_of(policy, &["PreemptLowerPriority", "Never"], path, errors),
        None => {}
    }
}

/// Validates permission bits of a file.
pub fn file_mode(mode: Option<i64>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = mode.filter(|m| !(0..=0o777).contains(m)) {
        errors.push(FieldError::invalid(path, mode, FILE_MODE));
    }
}

/// Validates a path without `..` (upstream `validatePathNoBacksteps`).
pub fn no_backsteps(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if text.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, text, "must not contain '..'"));
    }
}

/// Validates a relative path that stays below its start (upstream `validateLocalDescendingPath`).
pub fn descending(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must be a relative path"));
    }
    no_backsteps(text, path, errors);
}

/// Validates a descending path whose first name does not begin with two dots, which are reserved (upstream `ValidateLocalNonReservedPath`).
pub fn non_reserved(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    descending(text, path, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(FieldError::invalid(path, text, "must not start with '..'"));
    }
}

pub use address::legacy as ip;

/// Validates a port by number or name (upstream `ValidatePortNumOrName`).
pub fn port_or_name(value: oarlock_schema::IntOrStr<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        oarlock_schema::IntOrStr::Int(n) => port(n, path, errors),
        oarlock_schema::IntOrStr::Str(name) => each(formats::port_name(name), name, path, errors),
    }
}

/// Validates a quantity that is at least zero.
pub fn quantity(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if text.starts_with('-') {
        errors.push(FieldError::invalid(path, text, NON_NEGATIVE));
    }
}

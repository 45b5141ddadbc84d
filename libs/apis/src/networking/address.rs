//! Validation of IPAddress and ServiceCIDR, the addresses of Services (KEP-1880).

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::networking_v1::{IPAddressSpec, ServiceCIDRSpec};

use crate::rules::{IMMUTABLE, each, formats, optional_subdomain, show};

/// Validates the parent of an address (upstream `validateIPAddressParentReference`).
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("parentRef");
    let Some(parent) = IPAddressSpec::new(node).parent_ref() else {
        errors.push(FieldError::required(&at, ""));
        return;
    };
    optional_subdomain(parent.group(), &at.child("group"), errors);
    for (field, value) in [("resource", parent.resource()), ("name", parent.name())] {
        if value.is_empty() {
            errors.push(FieldError::required(&at.child(field), ""));
        }
        each(formats::path_segment(value), value, &at.child(field), errors);
    }
    each(formats::path_segment(parent.namespace()), parent.namespace(), &at.child("namespace"), errors);
}

/// Validates the ranges: one, or one of each family (upstream `validateServiceCIDRSpec`).
pub fn validate_ranges(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("cidrs");
    match ServiceCIDRSpec::new(node).cidrs().len() {
        0 => errors.push(FieldError::required(&at, "at least one CIDR required")),
        1 | 2 => {}
        _ => {
            let shown = oarlock_meta::field::Raw(show::internal(node));
            errors.push(FieldError::invalid(&at, shown, "may only hold up to 2 values"));
        }
    }
}

/// Validates that ranges do not change; a range of the other family may be added (upstream `ValidateServiceCIDRUpdate`).
pub fn keep_ranges(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (ServiceCIDRSpec::new(new).cidrs(), ServiceCIDRSpec::new(old).cidrs());
    let at = path.child("cidrs");
    if now.len() != before.len() && (before.len(), now.len()) != (1, 2) {
        errors.push(FieldError::invalid(&at, show::value(new.get("cidrs")), IMMUTABLE));
        return;
    }
    for (i, (range, was)) in now.iter().zip(before.iter()).enumerate() {
        if range != was {
            errors.push(FieldError::invalid(&at.index(i), range, IMMUTABLE));
        }
    }
}

//! Validates ValidatingAdmissionPolicyBindings (upstream `validateValidatingAdmissionPolicyBindingSpec`).

use std::collections::HashSet;

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::admissionregistration_v1 as v1;

use crate::rules::{each, formats, one_of, show, subdomain};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

/// Validates the name of the bound policy.
pub fn validate_policy_name(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (name, at) = (v1::ValidatingAdmissionPolicyBindingSpec::new(node).policy_name(), path.child("policyName"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        subdomain(name, &at, errors);
    }
}

/// Validates the actions for requests that the policy does not allow.
pub fn validate_actions(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let actions = v1::ValidatingAdmissionPolicyBindingSpec::new(node).validation_actions();
    let at = path.child("validationActions");
    let mut seen = HashSet::new();
    for (i, action) in actions.iter().enumerate() {
        one_of(action, ACTIONS, &at.index(i), errors);
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(&at.index(i), action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers \
                   serves no purpose)";
        errors.push(FieldError::invalid(&at, Raw(show::items(actions.values())), why));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(&at, "at least one validation action is required"));
    }
}

/// Validates the name of a parameter object.
pub fn validate_param_name(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let param = v1::ParamRef::new(node);
    if !param.name().is_empty() {
        each(formats::path_segment(param.name()), param.name(), &path.child("name"), errors);
        if param.selector().is_some() {
            errors.push(FieldError::forbidden(&path.child("name"), "name and selector are mutually exclusive"));
        }
    }
}

/// Validates a reference to parameters, except its selector.
pub fn validate_param_ref(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let param = v1::ParamRef::new(node);
    match (param.name().is_empty(), param.selector().is_some()) {
        (false, true) => {
            errors.push(FieldError::forbidden(&path.child("selector"), "name and selector are mutually exclusive"));
        }
        (true, false) => errors.push(FieldError::required(path, "one of name or selector must be specified")),
        _ => {}
    }
    let at = path.child("parameterNotFoundAction");
    match param.parameter_not_found_action().unwrap_or("") {
        "" => errors.push(FieldError::required(&at, "")),
        action => one_of(action, &["Deny", "Allow"], &at, errors),
    }
}

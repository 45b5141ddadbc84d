//! Defaults and validation of RoleBinding and ClusterRoleBinding.

use oarlock_meta::field::Raw;
use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::rbac_v1::{RoleRef, Subject};
use oarlock_schema::{FromValue, Struct, Value};

use super::subject::GROUP;
use crate::rules::{each, formats, one_of, required, subdomain};

fn role_ref(node: &Struct) -> RoleRef<'_> {
    RoleRef::from_option(node.get("roleRef").and_then(Value::as_struct))
}

/// Validates like upstream's `ValidateRoleBinding`, `ValidateClusterRoleBinding`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let cluster = node.ty().short_name() == "ClusterRoleBinding";
    let (role, at) = (role_ref(node), path.child("roleRef"));
    one_of(role.api_group(), &[GROUP], &at.child("apiGroup"), errors);
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    one_of(role.kind(), kinds, &at.child("kind"), errors);
    if role.name().is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    } else {
        each(formats::path_segment(role.name()), role.name(), &at.child("name"), errors);
    }
    let subjects = path.child("subjects");
    for (i, item) in node.get("subjects").map_or(&[][..], Value::items).iter().enumerate() {
        subject(Subject::from_value(item), cluster, &subjects.index(i), errors);
    }
}

fn subject(subject: Subject<'_>, cluster: bool, path: &Path<'_>, errors: &mut ErrorList) {
    required(subject.name(), &path.child("name"), errors);
    let group = path.child("apiGroup");
    match subject.kind() {
        "ServiceAccount" => {
            if !subject.name().is_empty() {
                subdomain(subject.name(), &path.child("name"), errors);
            }
            if !subject.api_group().is_empty() {
                errors.push(FieldError::not_supported(&group, subject.api_group(), &[""]));
            }
            if cluster && subject.namespace().is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => one_of(subject.api_group(), &[GROUP], &group, errors),
        other => {
            errors.push(FieldError::not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]))
        }
    }
}

/// Validates that the role of a binding does not change.
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if new.get("roleRef") != old.get("roleRef") {
        let role = role_ref(new);
        let (group, kind, name) = (quote(role.api_group()), quote(role.kind()), quote(role.name()));
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        errors.push(FieldError::invalid(&path.child("roleRef"), Raw(shown), "cannot change roleRef"));
    }
}

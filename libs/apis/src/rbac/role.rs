//! Defaults and validation of Role and ClusterRole.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::rbac_v1::ClusterRole;
use oarlock_schema::{Struct, Value};

use crate::rules::{selector, show};

/// Validates like upstream's `ValidateRole`, `ValidateClusterRole`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let cluster = node.ty().short_name() == "ClusterRole";
    let list = path.child("rules");
    for (i, rule) in node.get("rules").map_or(&[][..], Value::items).iter().enumerate() {
        policy(rule, cluster, &list.index(i), errors);
    }
    if !cluster {
        return;
    }
    let Some(aggregation) = ClusterRole::new(node).aggregation_rule() else { return };
    if aggregation.cluster_role_selectors().is_empty() {
        let at = path.child("aggregationRule");
        let text = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&at.child("clusterRoleSelectors"), text));
    }
    for (i, chosen) in aggregation.cluster_role_selectors().iter().enumerate() {
        if selector::well_formed(chosen) {
            continue;
        }
        let at = path.child("aggregationRule");
        let at = at.child("clusterRoleSelectors");
        errors.push(FieldError::invalid(&at.index(i), show::value(None), "invalid label selector."));
    }
}

fn policy(rule: &Value, cluster: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let items = |field: &str| rule.get(field).map_or(&[][..], Value::items);
    if items("verbs").is_empty() {
        errors.push(FieldError::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    let urls = items("nonResourceURLs");
    if !urls.is_empty() {
        let at = path.child("nonResourceURLs");
        let shown = || Raw(show::items(urls));
        if !cluster {
            errors.push(FieldError::invalid(&at, shown(), "namespaced rules cannot apply to non-resource URLs"));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !items(field).is_empty()) {
            let text = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&at, shown(), text));
        }
        return;
    }
    if items("apiGroups").is_empty() {
        errors
            .push(FieldError::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if items("resources").is_empty() {
        errors.push(FieldError::required(&path.child("resources"), "resource rules must supply at least one resource"));
    }
}

//! Defaults and validation of Node.

use std::collections::HashSet;

use oarlock_meta::field::Raw;
use oarlock_meta::names::label_value_errors;
use oarlock_meta::quote::quote;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Node, NodeSpec, Taint};
use oarlock_schema::{Struct, Value};

use crate::rules::{Seen, formats, one_of, qualified};

/// Sets allocatable to the capacity unless the node states its own (upstream `SetDefaults_NodeStatus`).
pub fn default(node: &mut Struct) {
    let filled = |v: Option<&Value>| v.and_then(Value::as_map).is_some();
    if !filled(node.get("allocatable")) && filled(node.get("capacity")) {
        let capacity = node.get("capacity").cloned().unwrap_or_default();
        node.set_name("allocatable", capacity);
    }
}

/// Validates like upstream's `ValidateNode`, which puts taints below `metadata`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let node = Node::new(node);
    let mut seen: Seen<(&str, &str)> = Seen::new();
    for (i, taint) in node.spec().taints().iter().enumerate() {
        let at = path.child("metadata");
        let at = at.child("taints");
        let at = at.index(i);
        one_taint(taint, &at, errors);
        if seen.contains(&(taint.key(), taint.effect())) {
            let (key, value, effect) = (quote(taint.key()), quote(taint.value()), quote(taint.effect()));
            let added = taint.time_added().map_or("null".to_owned(), quote);
            let shown = format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":{added}}}");
            let mut error = FieldError::duplicate(&at, Raw(shown));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
        seen.push((taint.key(), taint.effect()));
    }
    amounts(node, path, errors);
    for (i, range) in node.spec().pod_cidrs().iter().enumerate() {
        let at = path.child("spec");
        let at = at.child("podCIDRs");
        if !formats::is_cidr(range) {
            let text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(FieldError::invalid(&at.index(i), range, text));
        }
    }
}

/// Validates capacity and allocatable (upstream `ValidateNodeResources`, whose paths have the resource's name as a field).
fn amounts(node: Node<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("status");
    for (field, list) in [("capacity", node.status().capacity()), ("allocatable", node.status().allocatable())] {
        let at = at.child(field);
        for (name, text) in list.iter() {
            super::resources::amount(name, text, &at.child(name), errors);
        }
    }
}

/// Validates like upstream's `ValidateNodeUpdate`, for the status.
pub fn validate_status(new: &Struct, _: &Struct, errors: &mut ErrorList) {
    amounts(Node::new(new), &Path::ROOT, errors);
    addresses(Node::new(new), &Path::ROOT, errors);
}

/// Validates that no address is listed twice. As upstream, this is checked in updates only.
fn addresses(node: Node<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("status");
    let at = at.child("addresses");
    let mut seen = HashSet::new();
    for (i, address) in node.status().addresses().iter().enumerate() {
        if !seen.insert((address.type_(), address.address())) {
            let shown = format!("{{\"Type\":{},\"Address\":{}}}", quote(address.type_()), quote(address.address()));
            errors.push(FieldError::duplicate(&at.index(i), Raw(shown)));
        }
    }
}

fn one_taint(taint: Taint<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    qualified(taint.key(), &path.child("key"), errors);
    let wrong = label_value_errors(taint.value());
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(&path.child("value"), taint.value(), wrong.join(";")));
    }
    let at = path.child("effect");
    match taint.effect() {
        "" => errors.push(FieldError::required(&at, "")),
        effect => one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], &at, errors),
    }
}

/// Validates that the addresses and identity of a node do not change once set (upstream `ValidateNodeUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (Node::new(new).spec(), Node::new(old).spec());
    let at = path.child("spec");
    if !before.pod_cidrs().is_empty() && now.pod_cidrs().values() != before.pod_cidrs().values() {
        let text = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(&at.child("podCIDRs"), text));
    }
    if !before.provider_id().is_empty() && now.provider_id() != before.provider_id() {
        let text = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(&at.child("providerID"), text));
    }
}

/// Warns of fields that have no effect, and of address ranges in deprecated forms.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let spec = NodeSpec::new(node);
    if spec.config_source().is_some() {
        texts.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.external_id().is_empty() {
        texts.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (i, range) in spec.pod_cidrs().iter().enumerate() {
        crate::rules::address::warn_range(range, &path.child("podCIDRs").index(i), texts);
    }
}

//! Validation of Pods at creation and update.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Pod, PodSpec, PodSpecMut};
use oarlock_schema::{Struct, Value};
use oarlock_seeded_bug::seeded_bug;

use crate::rules::{Seen, range};

const IMMUTABLE_SPEC_TEXT: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates like upstream's `ValidatePodCreate`, beyond the spec; images of pods, not of templates, are checked for surrounding space.
pub fn create(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = Pod::new(node).spec();
    let at = path.child("spec");
    if !spec.ephemeral_containers().is_empty() {
        errors.push(FieldError::forbidden(&at.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.node_name().is_empty() && !spec.scheduling_gates().is_empty() {
        let text = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&at.child("nodeName"), text));
    }
}

/// Validates the rules that apply to pods but not to templates.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = Pod::new(node).spec();
    let at = path.child("spec");
    for (field, containers) in [("containers", spec.containers()), ("initContainers", spec.init_containers())] {
        for (i, container) in containers.iter().enumerate() {
            if container.image().trim() != container.image() {
                let list = at.child(field);
                let here = list.index(i);
                errors.push(FieldError::invalid(
                    &here.child("image"),
                    container.image(),
                    "must not have leading or trailing whitespace",
                ));
            }
        }
    }
}

/// Validates like upstream's `ValidatePodUpdate`: almost all fields of a pod's spec are immutable.
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (Pod::new(new).spec(), Pod::new(old).spec());
    let at = path.child("spec");
    for (field, a, b) in [
        ("containers", now.containers(), before.containers()),
        ("initContainers", now.init_containers(), before.init_containers()),
    ] {
        if a.len() != b.len() {
            errors.push(FieldError::forbidden(&at.child(field), "pod updates may not add or remove containers"));
            return;
        }
        for (i, container) in a.iter().enumerate().filter(|(_, c)| c.image().is_empty()) {
            let _ = container;
            errors.push(FieldError::required(&at.child(field).index(i).child("image"), ""));
        }
    }
    if !deadline(now, before, &at.child("activeDeadlineSeconds"), errors) {
        return;
    }
    tolerations(now, before, &at.child("tolerations"), errors);
    let gates: Seen<&str> = before.scheduling_gates().iter().map(|known| known.name()).collect();
    for (i, gate) in now.scheduling_gates().iter().enumerate() {
        if !gates.contains(&gate.name()) {
            let text = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name());
            errors.push(FieldError::forbidden(&at.child("schedulingGates").index(i).child("name"), text));
        }
    }
    let (Some(now), Some(before)) = (now.node(), before.node()) else { return };
    if now != before && masked(now, before, &at, errors) != masked(before, before, &at, &mut ErrorList::new()) {
        errors.push(FieldError::forbidden(&at, IMMUTABLE_SPEC_TEXT));
    }
}

/// Validates the active deadline, which may only be lowered; returns `false` for an invalid value.
fn deadline(now: PodSpec<'_>, before: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    match (now.active_deadline_seconds(), before.active_deadline_seconds()) {
        (Some(n), old) => {
            let count = errors.len();
            range(n, 0, i64::from(i32::MAX), path, errors);
            if old.is_some_and(|old| old < n) {
                errors.push(FieldError::invalid(path, n, "must be less than or equal to previous value"));
            }
            errors.len() == count
        }
        (None, Some(_)) => {
            let shown = crate::rules::show::value(None);
            errors.push(FieldError::invalid(path, shown, "must not update from a positive integer to nil value"));
            true
        }
        (None, None) => true,
    }
}

fn tolerations(now: PodSpec<'_>, before: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    fn key(toleration: &Value) -> [Option<&str>; 4] {
        ["key", "operator", "value", "effect"].map(|field| toleration.get(field).and_then(Value::as_str))
    }
    let kept: Seen<[Option<&str>; 4]> = now.tolerations().values().iter().map(key).collect();
    if !before.tolerations().values().iter().all(|old| kept.contains(&key(old))) {
        errors
            .push(FieldError::forbidden(path, "existing toleration can not be modified except its tolerationSeconds"));
    }
}

/// Returns the spec with all mutable fields taken from `old`. Pods with scheduling gates may narrow down their nodes.
fn masked(spec: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) -> Struct {
    let mut out = spec.clone();
    let before = PodSpec::new(old);
    for field in ["containers", "initContainers"] {
        let images: Vec<Option<Value>> = match old.get(field) {
            Some(Value::List(items)) => items.iter().map(|c| c.get("image").cloned()).collect(),
            _ => Vec::new(),
        };
        if let Some(Value::List(items)) = out.get_mut(field) {
            for (container, image) in items.iter_mut().zip(images) {
                if let Some(container) = container.as_struct_mut() {
                    container.set_name("image", image.unwrap_or_default());
                }
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy(&mut out, old, field);
    }
    if seeded_bug!("ephemeral_by_the_front_door") {
        copy(&mut out, old, "ephemeralContainers");
    }
    if before.termination_grace_period_seconds().is_some_and(|g| g < 0)
        && PodSpec::new(&out).termination_grace_period_seconds() == Some(1)
    {
        copy(&mut out, old, "terminationGracePeriodSeconds");
    }
    if !before.scheduling_gates().is_empty() {
        gated(&mut out, old, path, errors);
    }
    out
}

fn copy(out: &mut Struct, old: &Struct, field: &str) {
    match old.get(field) {
        Some(value) => drop(out.set_name(field, value.clone())),
        None => drop(out.remove_name(field)),
    }
}

/// Validates that a pod with scheduling gates only gains conditions on its nodes, and masks these changes in `out`.
fn gated(out: &mut Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (now, before) = (PodSpec::new(out), PodSpec::new(old));
    if before.node_selector().iter().any(|(key, value)| now.node_selector().get(key) != Some(value)) {
        let shown = crate::rules::show::value(out.get("nodeSelector"));
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid(&path.child("nodeSelector"), shown, text));
    }
    let required = |spec: PodSpec<'_>| {
        spec.affinity()
            .and_then(|a| a.node_affinity())
            .and_then(|n| n.required_during_scheduling_ignored_during_execution())
            .map(|r| r.node_selector_terms().len())
    };
    let (a, b) = (required(now), required(before));
    if b.is_some_and(|b| b > 0 && a != Some(b)) {
        let at = path.child("affinity");
        let at = at.child("nodeAffinity");
        let at = at.child("requiredDuringSchedulingIgnoredDuringExecution");
        let shown = crate::rules::show::value(out.at(&[
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ]));
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(&at.child("nodeSelectorTerms"), shown, text));
    }
    copy(out, old, "nodeSelector");
    let Some(Value::Struct(_)) = out.get("affinity") else { return };
    match old.at(&["affinity", "nodeAffinity"]).cloned() {
        Some(value) => drop(out.set_at(&["affinity", "nodeAffinity"], value)),
        None => {
            if let Some(affinity) = out.get_mut("affinity").and_then(Value::as_struct_mut) {
                affinity.remove_name("nodeAffinity");
            }
        }
    }
    let empty = out.get("affinity").and_then(Value::as_struct).is_some_and(Struct::is_empty);
    if empty && old.get("affinity").is_none() {
        PodSpecMut::new(out).clear_affinity();
    }
}

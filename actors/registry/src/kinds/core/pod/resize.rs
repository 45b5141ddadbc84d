//! `pods/resize`: changes cpu and memory of running containers, and nothing else (KEP-1287).

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_pods::qos;
use oarlock_pods::sidecar::is_sidecar;
use oarlock_schema::views::Map;
use oarlock_schema::views::core_v1::{Pod, PodSpec, ResourceRequirements};
use oarlock_schema::{Struct, Value, canonical};

use super::take;

const LISTS: [&str; 2] = ["containers", "initContainers"];
const ONLY_COMPUTE_IS_MUTABLE: &str = "only cpu and memory resources are mutable";

/// Copies resources and resize policies from `asked` and keeps the rest as stored. If the list of containers differs, all of `asked` is copied, so
/// that validation refuses it (upstream `dropNonResizeUpdates`).
pub(super) fn resized(spec: &mut Struct, asked: &Struct) {
    let count = |spec: &Struct, list: &str| spec.get(list).map_or(0, |list| list.items().len());
    if LISTS.iter().any(|list| count(asked, list) != count(spec, list)) {
        spec.clone_from(asked);
        return;
    }
    for list in LISTS {
        let wanted = asked.get(list).map_or(&[][..], Value::items);
        let Some(Value::List(containers)) = spec.get_mut(list) else { continue };
        if containers.iter().zip(wanted).any(|(have, wish)| have.get("name") != wish.get("name")) {
            spec.set_name(list, asked.get(list).cloned().unwrap_or_default());
            continue;
        }
        for (container, wish) in containers.iter_mut().filter_map(Value::as_struct_mut).zip(wanted) {
            let Some(wish) = wish.as_struct() else { continue };
            take(container, wish, "resources");
            take(container, wish, "resizePolicy");
        }
    }
}

/// Checks a resize against the stored pod (upstream `ValidatePodResize`, without the validation of the new pod as such).
pub(super) fn validate(now: Pod<'_>, before: Pod<'_>, errors: &mut ErrorList) {
    let never = if before.metadata().annotations().get("kubernetes.io/config.mirror").is_some() {
        Some("static pods cannot be resized")
    } else if before.spec().os().is_some_and(|os| os.name() == "windows") {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(why) = never {
        *errors = ErrorList::new();
        errors.push(error_without_path(why));
        return;
    }
    let at = Path::new("spec");
    if qos::computed(now.spec()) != qos::of(before) {
        let text = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid(&at, now.status().qos_class(), text));
    }
    // A kubelet that supports resizing reports the resources of running containers.
    let mut running = before.status().container_statuses().iter().filter(|c| c.state().running().is_some());
    if running.next().is_some_and(|c| c.resources().is_none()) {
        errors.push(FieldError::forbidden(&at, "Pod running on node without support for resize"));
    }
    let whole =
        |pod: Pod<'_>| pod.spec().resources().is_some_and(|r| !(r.requests().is_empty() && r.limits().is_empty()));
    if whole(now) || whole(before) {
        let text = "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
        errors.push(error_without_path(text));
        return;
    }
    if in_order(now.spec(), before.spec(), &at, errors) {
        containers(now, before, &at, errors);
    }
}

/// Returns an error with the path `[]`, which upstream prints for a path without a name.
fn error_without_path(why: &str) -> FieldError {
    FieldError { field: "[]".to_owned(), ..FieldError::forbidden(&Path::ROOT, why) }
}

/// Checks that no container is added, removed, moved or renamed.
fn in_order(now: PodSpec<'_>, before: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let count = errors.len();
    let lists = [(now.containers(), before.containers()), (now.init_containers(), before.init_containers())];
    for (list, (now, before)) in LISTS.into_iter().zip(lists) {
        let at = path.child(list);
        if now.len() != before.len() {
            errors.push(FieldError::forbidden(&at, format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (i, _) in now.iter().zip(before.iter()).enumerate().filter(|(_, (a, b))| a.name() != b.name()) {
            let text = format!("{list} may not be renamed or reordered on resize");
            errors.push(FieldError::forbidden(&at.index(i).child("name"), text));
        }
    }
    errors.len() == count
}

fn containers(now: Pod<'_>, before: Pod<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (new, old) = (now.spec(), before.spec());
    for (i, (now, before)) in new.init_containers().iter().zip(old.init_containers().iter()).enumerate() {
        if is_sidecar(before) {
            let list = path.child("initContainers");
            removed(now.resources(), before.resources(), &list.index(i).child("resources"), errors);
        }
    }
    for (i, (now, before)) in new.containers().iter().zip(old.containers().iter()).enumerate() {
        let list = path.child("containers");
        removed(now.resources(), before.resources(), &list.index(i).child("resources"), errors);
    }
    for (now, before) in new.containers().values().iter().zip(old.containers().values()) {
        if !same_but_compute(now, before) {
            errors.push(FieldError::forbidden(path, ONLY_COMPUTE_IS_MUTABLE));
        }
    }
    for (i, (now, before)) in new.init_containers().values().iter().zip(old.init_containers().values()).enumerate() {
        if new.init_containers().get(i).is_some_and(is_sidecar) {
            if !same_but_compute(now, before) {
                let text = "only cpu and memory resources for sidecar containers are mutable";
                errors.push(FieldError::forbidden(path, text));
            }
        } else if !canonical::same(Some(now), Some(before)) {
            errors.push(FieldError::forbidden(path, "resources for non-sidecar init containers are immutable"));
        }
    }
}

/// Checks that no request or limit of a resource is removed; amounts may change.
fn removed(now: ResourceRequirements<'_>, before: ResourceRequirements<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let lost = |now: Map<'_, &str>, before: Map<'_, &str>| before.iter().any(|(name, _)| now.get(name).is_none());
    if lost(now.requests(), before.requests()) {
        errors.push(FieldError::forbidden(&path.child("requests"), "resource requests cannot be removed"));
    }
    if lost(now.limits(), before.limits()) {
        errors.push(FieldError::forbidden(&path.child("limits"), "resource limits cannot be removed"));
    }
}

/// Whether two containers differ in nothing but amounts of cpu and memory. As in upstream, the new container's resource claims are removed before the
/// comparison, so a container with claims cannot be resized.
fn same_but_compute(now: &Value, before: &Value) -> bool {
    let (Value::Struct(now), Value::Struct(before)) = (now, before) else { return false };
    let mut masked = now.clone();
    if let Some(Value::Struct(resources)) = masked.get_mut("resources") {
        resources.remove_name("claims");
        for field in ["limits", "requests"] {
            let mut amounts = resources.get(field).and_then(Value::as_map).cloned().unwrap_or_default();
            for name in ["cpu", "memory"] {
                match before.at(&["resources", field, name]) {
                    Some(amount) => drop(amounts.insert(name, amount.clone())),
                    None => drop(amounts.remove(name)),
                }
            }
            resources.set_name(field, amounts);
        }
    }
    canonical::same(Some(&Value::Struct(masked)), Some(&Value::Struct(before.clone())))
}

#[cfg(test)]
mod tests;

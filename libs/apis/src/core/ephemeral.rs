//! Validation of ephemeral containers: which fields one may have, and how the list of a pod may change.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Container, PodSpec};
use oarlock_schema::{Struct, Value, canonical, type_named};

use super::container::Known;
use super::{container, resources};

/// Fields that ephemeral containers must not have, in upstream's order.
const FORBIDDEN: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
/// The fields of `FORBIDDEN` that upstream refuses without validating their content.
const REFUSED_UNVALIDATED: &[&str] =
    &["livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicyRules"];
const REFUSED_TEXT: &str = "cannot be set for an Ephemeral Container";

/// Returns the container without the fields in `REFUSED_UNVALIDATED`; `None` when the container has none of them.
pub fn seen(node: &Struct) -> Option<Struct> {
    REFUSED_UNVALIDATED.iter().any(|field| set(node, field)).then(|| {
        let mut out = node.clone();
        for field in REFUSED_UNVALIDATED {
            out.remove_name(field);
        }
        out
    })
}

/// Validates the rules of all containers.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(common) = as_container(node) {
        container::validate(&common, path, errors);
    }
}

/// Validates like upstream's `validateEphemeralContainers`, except the rules that concern only the container itself.
pub(super) fn in_spec(spec: PodSpec<'_>, known: &Known<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if spec.ephemeral_containers().is_empty() {
        return;
    }
    let lasting = spec.containers().iter().chain(spec.init_containers().iter()).map(|one| one.name());
    let lasting: std::collections::BTreeSet<&str> = lasting.collect();
    let mut names = lasting.clone();
    for (i, one) in spec.ephemeral_containers().iter().enumerate() {
        let Some(node) = one.node() else { continue };
        let at = path.index(i);
        if let Some(common) = as_container(node) {
            let common = Container::new(&common);
            resources::requirements(common.resources(), false, &known.claims, &at.child("resources"), errors);
            container::volumes(common, &known.volumes, &at, errors);
            let never = spec.restart_policy() == "Never";
            container::resize_policy(common, never, &at.child("resizePolicy"), errors);
            container::proc_mount(common, spec.host_users(), &at, errors);
        }
        if one.image().trim() != one.image() {
            let text = "must not have leading or trailing whitespace";
            errors.push(FieldError::invalid(&at.child("image"), one.image(), text));
        }
        if !names.insert(one.name()) {
            errors.push(FieldError::duplicate(&at.child("name"), one.name()));
        }
        let target = one.target_container_name();
        if !target.is_empty() && !lasting.contains(target) {
            errors.push(FieldError::not_found(&at.child("targetContainerName"), target));
        }
        for field in FORBIDDEN.iter().filter(|field| set(node, field)) {
            errors.push(FieldError::forbidden(&at.child(field), REFUSED_TEXT));
        }
        for (j, mount) in one.volume_mounts().iter().enumerate() {
            let mounts = at.child("volumeMounts");
            let at = mounts.index(j);
            for (field, sub_path) in [("subPath", mount.sub_path()), ("subPathExpr", mount.sub_path_expr())] {
                if !sub_path.is_empty() {
                    errors.push(FieldError::forbidden(&at.child(field), REFUSED_TEXT));
                }
            }
        }
    }
}

/// Validates like upstream's `ValidatePodEphemeralContainersUpdate`: existing ephemeral containers must not change. The diff that upstream appends to the text is left out.
pub fn validate_change(new: PodSpec<'_>, old: PodSpec<'_>, errors: &mut ErrorList) {
    let by_name: std::collections::BTreeMap<&str, &Struct> =
        new.ephemeral_containers().iter().filter_map(|one| Some((one.name(), one.node()?))).collect();
    let spec = Path::new("spec");
    let at = spec.child("ephemeralContainers");
    for one in old.ephemeral_containers().iter() {
        let name = oarlock_meta::quote::quote(one.name());
        match (by_name.get(one.name()), one.node()) {
            (None, _) => {
                let text = format!("existing ephemeral containers {name} may not be removed\n");
                errors.push(FieldError::forbidden(&at, text));
            }
            (Some(now), Some(before)) if !same(now, before) => {
                let text = format!("existing ephemeral containers {name} may not be changed");
                errors.push(FieldError::forbidden(&at, text));
            }
            _ => {}
        }
    }
}

fn same(a: &Struct, b: &Struct) -> bool {
    a.ty().iter().all(|(id, _)| canonical::same(a.field(id), b.field(id)))
}

/// Whether a field is set.
fn set(node: &Struct, field: &str) -> bool {
    match node.get(field) {
        None | Some(Value::Null) => false,
        // The field is no pointer in upstream's type, and so always set.
        Some(Value::Struct(resources)) if field == "resources" => !resources.is_empty(),
        Some(_) => true,
    }
}

/// Converts the common fields into a container (as upstream converts `EphemeralContainerCommon`).
fn as_container(node: &Struct) -> Option<Struct> {
    let mut out = Struct::zero(type_named("core/v1.Container")?);
    for (def, value) in node.iter().filter(|(def, _)| def.name != "targetContainerName") {
        out.set_name(def.name, value.clone());
    }
    Some(out)
}

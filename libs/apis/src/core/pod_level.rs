//! Validates pod-level resources against those of the containers (KEP-2837).

use oarlock_meta::{ErrorList, FieldError, Path, Quantity};
use oarlock_pods::amounts::Quantities;
use oarlock_pods::{RequirementKind, Sum};
use oarlock_schema::views::core_v1::{PodSpec, ResourceRequirements};

use super::resources;

/// Validates like upstream's `validatePodResources`.
pub(super) fn validate(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(own) = spec.resources() else { return };
    if spec.os().is_some_and(|os| os.name() == "windows") {
        errors.push(FieldError::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if !own.claims().is_empty() {
        let text = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), text));
    }
    let claims = spec.resource_claims().iter().map(|claim| claim.name()).collect();
    resources::requirements(own, true, &claims, path, errors);
    consistency(spec, own, path, errors);
}

/// Validates that the pod requests at least as much as its containers together, and that no container has a higher limit than the pod (upstream
/// `validatePodResourceConsistency`).
fn consistency(spec: PodSpec<'_>, own: ResourceRequirements<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let more = |amount: &Quantity, pod: &str| Quantity::parse(pod).is_ok_and(|pod| *amount > pod);
    for (field, side) in [("requests", RequirementKind::Requests), ("limits", RequirementKind::Limits)] {
        let (list, amounts) = (path.child(field), side.of(own));
        for (resource, sum) in Sum::new(spec, side).of_containers(&Quantities).iter() {
            // Only huge pages cannot be overcommitted.
            if side == RequirementKind::Limits && !resource.starts_with("hugepages-") {
                continue;
            }
            if let Some(have) = amounts.get(resource).filter(|have| more(sum, have)) {
                let text =
                    format!("must be greater than or equal to aggregate container {field} of {}", sum.canonical());
                errors.push(FieldError::invalid(&list.key(resource), have, text));
            }
        }
    }
    for (i, container) in spec.containers().iter().enumerate() {
        for (resource, text) in container.resources().limits().iter() {
            let Some(have) = own.limits().get(resource) else { continue };
            if Quantity::parse(text).is_ok_and(|limit| more(&limit, have)) {
                // As upstream, the path is `containers[<index>][<resource>].limits`.
                let list = path.child("containers");
                let at = list.index(i);
                let at = at.key(resource);
                let why = format!("must be less than or equal to pod limits of {have}");
                errors.push(FieldError::invalid(&at.child("limits"), text, why));
            }
        }
    }
}

//! The pods that a kubelet may create: mirrors of its static pods, bound to its node, owned by its Node and without references to other objects.

use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

use crate::plugins::references;

const ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Checks the rules that depend on the pod alone.
pub(super) fn check(obj: &Obj, pod: Pod<'_>, node: &str) -> Result<(), String> {
    if obj.meta().annotations().get(ANNOTATION).is_none() {
        return Err(format!(
            "pod does not have \"{ANNOTATION}\" annotation, node \"{node}\" can only create mirror pods"
        ));
    }
    let spec = pod.spec();
    if spec.node_name() != node {
        return Err(format!("node \"{node}\" can only create pods with spec.nodeName set to itself"));
    }
    owner(obj, node)?;
    let projects = |field: fn(oarlock_schema::views::core_v1::VolumeProjection<'_>) -> bool| {
        spec.volumes().iter().filter_map(|v| v.projected()).any(|p| p.sources().iter().any(field))
    };
    let references = [
        (!spec.service_account_name().is_empty(), "a service account"),
        (references::to_secrets(pod), "secrets"),
        (references::to_config_maps(pod), "configmaps"),
        (projects(|s| s.cluster_trust_bundle().is_some()), "clustertrustbundles"),
        (spec.volumes().iter().any(|v| v.persistent_volume_claim().is_some()), "persistentvolumeclaims"),
        (!spec.resource_claims().is_empty(), "resourceclaims"),
    ];
    match references.into_iter().find(|(refers, _)| *refers) {
        Some((_, what)) => Err(format!("node \"{node}\" can not create pods that reference {what}")),
        None => Ok(()),
    }
}

fn owner(obj: &Obj, node: &str) -> Result<(), String> {
    let owners = obj.meta().owner_references();
    if owners.len() > 1 {
        return Err(format!("node \"{node}\" can only create pods with a single owner reference set to itself"));
    }
    let owner = owners.get(0).filter(|o| o.api_version() == "v1" && o.kind() == "Node" && o.name() == node);
    let Some(owner) = owner else {
        return Err(format!("node \"{node}\" can only create pods with an owner reference set to itself"));
    };
    if owner.controller() != Some(true) {
        return Err(format!("node \"{node}\" can only create pods with a controller owner reference set to itself"));
    }
    if owner.block_owner_deletion() == Some(true) {
        return Err(format!("node \"{node}\" must not set blockOwnerDeletion on an owner reference"));
    }
    Ok(())
}

/// Checks that the owner is the current Node object.
pub(super) fn owned_by(obj: &Obj, node: &str, uid: &str) -> Result<(), String> {
    let given = obj.meta().owner_references().get(0).map_or("", |o| o.uid());
    if given == uid { Ok(()) } else { Err(format!("node {node} UID mismatch: expected {given} got {uid}")) }
}

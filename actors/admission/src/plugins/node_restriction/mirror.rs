//! The pods that a kubelet may create: mirrors of its static pods, bound to its node, owned by its Node and without references to other objects.

use oarlock_schema::Obj;
use oarlock_schema::views::View as _;
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
    match referenced(pod) {
        Some(what) => Err(format!("node \"{node}\" can not create pods that reference {what}")),
        None => Ok(()),
    }
}

/// Volume sources that need no object of the API.
const OWN_SOURCES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volume sources that need an object of the API, with upstream's word for it.
const SOURCES: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that need an object of the API, with upstream's word for it.
const PROJECTED: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Returns the kind of API objects that a pod refers to (upstream `podutil.HasAPIObjectReference`). A source that is not known counts as one.
fn referenced(pod: Pod<'_>) -> Option<&'static str> {
    let spec = pod.spec();
    let first = [
        (!spec.service_account_name().is_empty(), "serviceaccounts"),
        (references::to_secrets(pod), "secrets"),
        (references::to_config_maps(pod), "configmaps"),
        (!spec.resource_claims().is_empty(), "resourceclaims"),
    ];
    if let Some((_, what)) = first.into_iter().find(|(refers, _)| *refers) {
        return Some(what);
    }
    spec.volumes().iter().find_map(|volume| {
        let set = |name: &str| volume.node().is_some_and(|node| node.get(name).is_some());
        let named = |rows: &[(&str, &'static str)], set: &dyn Fn(&str) -> bool| {
            rows.iter().find(|(field, _)| set(field)).map(|(_, what)| *what)
        };
        if OWN_SOURCES.iter().any(|source| set(source)) {
            return None;
        }
        let Some(projected) = volume.projected() else {
            return Some(named(SOURCES, &set).unwrap_or("an unknown source"));
        };
        projected.sources().iter().find_map(|source| {
            let set = |name: &str| source.node().is_some_and(|node| node.get(name).is_some());
            match named(PROJECTED, &set) {
                None if set("downwardAPI") => None,
                what => Some(what.unwrap_or("an unknown source")),
            }
        })
    })
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

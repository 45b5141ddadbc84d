//! PersistentVolume.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{PersistentVolumeSpec, PersistentVolumeSpecMut};
use oarlock_schema::{Struct, Value};

use super::claim::{access_modes, positive};
use crate::rules::{optional_subdomain, required, show};

/// Fields of the spec that are no volume.
const COMMON: &[&str] = &[
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

/// Upstream `SetDefaults_PersistentVolume`.
pub fn default(node: &mut Struct) {
    let mut spec = PersistentVolumeSpecMut::new(node);
    if spec.read().persistent_volume_reclaim_policy().is_empty() {
        spec.set_persistent_volume_reclaim_policy("Retain");
    }
    if spec.read().volume_mode().is_none() {
        spec.set_volume_mode("Filesystem");
    }
}

/// Upstream `ValidatePersistentVolumeSpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = PersistentVolumeSpec::new(node);
    access_modes(spec.access_modes(), "", &path.child("accessModes"), errors);
    let capacity = path.child("capacity");
    if spec.capacity().is_empty() {
        errors.push(FieldError::required(&capacity, ""));
    }
    if spec.capacity().get("storage").is_none() || spec.capacity().len() > 1 {
        let shown = node.get("capacity").filter(|v| !v.is_null()).map_or_else(|| "{}".to_owned(), show::json);
        errors.push(FieldError::not_supported(&capacity, Raw(shown), &["storage"]));
    }
    for (name, text) in spec.capacity().iter() {
        if text.starts_with('-') {
            // Upstream shows the amount as a number here.
            let value = oarlock_meta::Quantity::parse(text).map_or(0, |q| q.value());
            errors.push(FieldError::invalid(&capacity.key(name), value, "must be a valid resource quantity"));
        }
        positive(text, &capacity.key(name), errors);
    }
    let sources: Vec<&str> =
        node.iter().filter(|(def, v)| !COMMON.contains(&def.name) && !v.is_null()).map(|(def, _)| def.name).collect();
    if sources.is_empty() {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    // Upstream looks at directories of the node first.
    let first = if sources.contains(&"hostPath") { "hostPath" } else { sources.first().copied().unwrap_or("") };
    for extra in sources.iter().filter(|name| **name != first) {
        errors.push(FieldError::forbidden(&path.child(extra), "may not specify more than 1 volume type"));
    }
    if spec.host_path().is_some_and(|h| h.path() == "/") && spec.persistent_volume_reclaim_policy() == "Recycle" {
        let text = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(&path.child("persistentVolumeReclaimPolicy"), text));
    }
    optional_subdomain(spec.storage_class_name(), &path.child("storageClassName"), errors);
    if let Some(csi) = spec.csi() {
        let at = path.child("csi");
        super::volume::driver_name(csi.driver(), &at.child("driver"), errors);
        required(csi.volume_handle(), &at.child("volumeHandle"), errors);
    }
    if spec.local().is_some() && spec.node_affinity().is_none() {
        errors.push(FieldError::required(&path.child("nodeAffinity"), "Local volume requires node affinity"));
    }
}

/// What a volume is never changes (upstream `ValidatePersistentVolumeUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = |node: &Struct| -> Vec<(&str, Value)> {
        node.iter()
            .filter(|(def, v)| !COMMON.contains(&def.name) && !v.is_null())
            .map(|(def, v)| (def.name, v.clone()))
            .collect()
    };
    if source(new) != source(old) {
        let text = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden(&path.child("persistentvolumesource"), text));
    }
    // Upstream's path lacks the spec.
    crate::rules::immutable(new.get("volumeMode"), old.get("volumeMode"), &Path::new("volumeMode"), errors);
    let affinity = |node: &Struct| node.get("nodeAffinity").filter(|v| !v.is_null()).cloned();
    if affinity(old).is_some() {
        crate::rules::immutable(affinity(new).as_ref(), affinity(old).as_ref(), &path.child("nodeAffinity"), errors);
    }
}

/// Volumes and policies that are no more.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    if PersistentVolumeSpec::new(node).persistent_volume_reclaim_policy() == "Recycle" {
        let at = path.child("persistentVolumeReclaimPolicy");
        texts.push(format!(
            "{at}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
        ));
    }
    for (field, text) in [
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ] {
        if node.get(field).is_some() {
            texts.push(format!("{}: {text}", path.child(if field == "storageos" { "storageOS" } else { field })));
        }
    }
}

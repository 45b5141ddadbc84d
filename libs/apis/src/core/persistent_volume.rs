//! Defaults and validation of PersistentVolume.

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{PersistentVolumeMut, PersistentVolumeSpec};
use oarlock_schema::{Struct, Value};

use super::claim::{access_modes, positive};
use crate::rules::{one_of, optional_subdomain, required, show};

/// The fields of the spec that are no volume source.
const NON_SOURCE_FIELDS: &[&str] = &[
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

/// Sets defaults like upstream's `SetDefaults_PersistentVolume`.
pub fn default(node: &mut Struct) {
    let mut volume = PersistentVolumeMut::new(node);
    let mut spec = volume.spec_mut();
    if spec.read().persistent_volume_reclaim_policy().is_empty() {
        spec.set_persistent_volume_reclaim_policy("Retain");
    }
    if spec.read().volume_mode().is_none() {
        spec.set_volume_mode("Filesystem");
    }
}

fn spec_of(node: &Struct) -> Option<&Struct> {
    node.get("spec").and_then(Value::as_struct)
}

/// Validates like upstream's `ValidatePersistentVolumeSpec`.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (Some(node), path) = (spec_of(node), path.child("spec")) else { return };
    let spec = PersistentVolumeSpec::new(node);
    access_modes(spec.access_modes(), "", &path.child("accessModes"), errors);
    capacity(spec, node, &path.child("capacity"), errors);
    if !spec.persistent_volume_reclaim_policy().is_empty() {
        let at = path.child("persistentVolumeReclaimPolicy");
        one_of(spec.persistent_volume_reclaim_policy(), &["Delete", "Recycle", "Retain"], &at, errors);
    }
    source(spec, node, &path, errors);
    if spec.host_path().is_some_and(|h| h.path() == "/") && spec.persistent_volume_reclaim_policy() == "Recycle" {
        let text = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(&path.child("persistentVolumeReclaimPolicy"), text));
    }
    optional_subdomain(spec.storage_class_name(), &path.child("storageClassName"), errors);
    if let Some(mode) = spec.volume_mode() {
        one_of(mode, &["Block", "Filesystem"], &path.child("volumeMode"), errors);
    }
    if let Some(class) = spec.volume_attributes_class_name() {
        let at = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.push(FieldError::required(&at, "an empty string is disallowed"));
        }
        optional_subdomain(class, &at, errors);
        if spec.csi().is_none() {
            let text = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(&path.child("csi"), text));
        }
    }
}

/// Validates a volume in a VolumeAttachment instead of a PersistentVolume: used for migrated pods, always CSI (upstream: the same function's
/// inline mode).
pub fn validate_inline(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = PersistentVolumeSpec::new(node);
    let text = "may not be specified in the context of inline volumes";
    let forbid = |set: bool, field: &str, text: &str, errors: &mut ErrorList| {
        if set {
            errors.push(FieldError::forbidden(&path.child(field), text));
        }
    };
    forbid(spec.claim_ref().is_some(), "claimRef", text, errors);
    forbid(!spec.capacity().is_empty(), "capacity", text, errors);
    if spec.csi().is_none() {
        errors.push(FieldError::required(&path.child("csi"), "has to be specified in the context of inline volumes"));
    }
    access_modes(spec.access_modes(), "", &path.child("accessModes"), errors);
    let policy = "may only be Retain in the context of inline volumes";
    let reclaim = spec.persistent_volume_reclaim_policy();
    forbid(!matches!(reclaim, "" | "Retain"), "persistentVolumeReclaimPolicy", policy, errors);
    forbid(spec.node_affinity().is_some(), "nodeAffinity", text, errors);
    source(spec, node, path, errors);
    forbid(!spec.storage_class_name().is_empty(), "storageClassName", text, errors);
    let mode = "may not specify volumeMode other than Filesystem in the context of inline volumes";
    forbid(spec.volume_mode().is_some_and(|m| m != "Filesystem"), "volumeMode", mode, errors);
}

fn capacity(spec: PersistentVolumeSpec<'_>, node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if spec.capacity().is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if spec.capacity().get("storage").is_none() || spec.capacity().len() > 1 {
        let shown = node.get("capacity").filter(|v| !v.is_null()).map_or_else(|| "{}".to_owned(), show::json);
        errors.push(FieldError::not_supported(path, Raw(shown), &["storage"]));
    }
    for (name, text) in spec.capacity().iter() {
        if text.starts_with('-') {
            // Upstream shows this amount as a number.
            let value = oarlock_meta::Quantity::parse(text).map_or(0, |q| q.value());
            errors.push(FieldError::invalid(&path.key(name), value, "must be a valid resource quantity"));
        }
        positive(text, &path.key(name), errors);
    }
}

/// Validates that there is exactly one volume source.
fn source(spec: PersistentVolumeSpec<'_>, node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let sources: Vec<&str> = node
        .iter()
        .filter(|(def, v)| !NON_SOURCE_FIELDS.contains(&def.name) && !v.is_null())
        .map(|(def, _)| def.name)
        .collect();
    // Upstream checks hostPath first.
    let first = if sources.contains(&"hostPath") { "hostPath" } else { sources.first().copied().unwrap_or("") };
    for extra in sources.iter().filter(|name| **name != first) {
        errors.push(FieldError::forbidden(&path.child(extra), "may not specify more than 1 volume type"));
    }
    if let Some(csi) = spec.csi() {
        let at = path.child("csi");
        super::volume::driver_name(csi.driver(), &at.child("driver"), errors);
        required(csi.volume_handle(), &at.child("volumeHandle"), errors);
    }
    if spec.local().is_some() && spec.node_affinity().is_none() {
        errors.push(FieldError::required(&path.child("nodeAffinity"), "Local volume requires node affinity"));
    }
    if sources.is_empty() {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

/// Validates that the volume source does not change (upstream `ValidatePersistentVolumeUpdate`).
pub fn validate_update(new: &Struct, old: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let (Some(new), Some(old), path) = (spec_of(new), spec_of(old), path.child("spec")) else { return };
    let source = |node: &Struct| -> Vec<(&str, Value)> {
        node.iter()
            .filter(|(def, v)| !NON_SOURCE_FIELDS.contains(&def.name) && !v.is_null())
            .map(|(def, v)| (def.name, v.clone()))
            .collect()
    };
    if source(new) != source(old) {
        let text = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden(&path.child("persistentvolumesource"), text));
    }
    // Upstream's path lacks `spec`.
    crate::rules::immutable(new.get("volumeMode"), old.get("volumeMode"), &Path::new("volumeMode"), errors);
    let affinity = |node: &Struct| node.get("nodeAffinity").filter(|v| !v.is_null()).cloned();
    if affinity(old).is_some() {
        crate::rules::immutable(affinity(new).as_ref(), affinity(old).as_ref(), &path.child("nodeAffinity"), errors);
    }
}

/// Warns of removed volume types and policies.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let (Some(node), path) = (spec_of(node), path.child("spec")) else { return };
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

//! Defaults and validation of volumes.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::Struct;
use oarlock_schema::views::core_v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EphemeralVolumeSource, HostPathVolumeSource,
    ISCSIVolumeSource, ImageVolumeSourceMut, KeyToPath, LocalVolumeSource, NFSVolumeSource, ProjectedVolumeSource,
    SecretVolumeSource, Volume, VolumeMut,
};
use oarlock_schema::views::{List, View};

use super::env;
use crate::rules::{self, Seen, descending, file_mode, image, no_backsteps, non_reserved, range};

/// The pod fields that a volume can show.
const FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Makes a volume without a source an empty directory (upstream `SetDefaults_Volume`).
pub fn default(node: &mut Struct) {
    if node.iter().all(|(def, value)| def.name == "name" || value.is_null()) {
        let _ = VolumeMut::new(node).empty_dir_mut();
    }
}

/// Sets the pull policy of an image volume like that of a container's image.
pub fn default_image(node: &mut Struct) {
    let mut source = ImageVolumeSourceMut::new(node);
    if source.read().pull_policy().is_empty() {
        let policy = image::pull_policy(source.read().reference());
        source.set_pull_policy(policy);
    }
}

/// Validates the name, and that there is exactly one source (upstream `ValidateVolumes`).
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let volume = Volume::new(node);
    if volume.name().is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else {
        rules::label(volume.name(), &path.child("name"), errors);
    }
    let sources: Vec<&str> =
        node.iter().filter(|(def, value)| def.name != "name" && !value.is_null()).map(|(def, _)| def.name).collect();
    if sources.is_empty() {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    // Upstream checks emptyDir first, so another source is reported as the superfluous one.
    let first = if sources.contains(&"emptyDir") { "emptyDir" } else { sources.first().copied().unwrap_or("") };
    for extra in sources.iter().filter(|name| **name != first) {
        errors.push(FieldError::forbidden(&path.child(extra), "may not specify more than 1 volume type"));
    }
    if volume.empty_dir().and_then(|e| e.size_limit()).is_some_and(|limit| limit.starts_with('-')) {
        let at = path.child("emptyDir");
        errors.push(FieldError::forbidden(&at.child("sizeLimit"), "SizeLimit field must be a valid resource quantity"));
    }
    if let Some(csi) = volume.csi() {
        driver_name(csi.driver(), &path.child("csi").child("driver"), errors);
    }
    if let Some(claim) = volume.persistent_volume_claim() {
        rules::required(claim.claim_name(), &path.child("persistentVolumeClaim").child("claimName"), errors);
    }
}

/// Validates the name of a CSI driver (upstream `ValidateCSIDriverName`).
pub(crate) fn driver_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    rules::each(oarlock_meta::names::subdomain_errors(&name.to_ascii_lowercase()), name, path, errors);
}

/// Validates a hostPath volume.
pub fn validate_host_path(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = HostPathVolumeSource::new(node);
    if source.path().is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    no_backsteps(source.path(), &path.child("path"), errors);
}

/// Validates a local volume.
pub fn validate_local(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    no_backsteps(LocalVolumeSource::new(node).path(), &path.child("path"), errors);
}

/// Validates a Secret volume.
pub fn validate_secret(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = SecretVolumeSource::new(node);
    rules::required(source.secret_name(), &path.child("secretName"), errors);
    file_mode(source.default_mode(), &path.child("defaultMode"), errors);
}

/// Validates a ConfigMap volume.
pub fn validate_config_map(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = ConfigMapVolumeSource::new(node);
    rules::required(source.name(), &path.child("name"), errors);
    file_mode(source.default_mode(), &path.child("defaultMode"), errors);
}

/// Validates a key with the path of its file.
pub fn validate_key_to_path(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let item = KeyToPath::new(node);
    rules::required(item.key(), &path.child("key"), errors);
    rules::required(item.path(), &path.child("path"), errors);
    non_reserved(item.path(), &path.child("path"), errors);
    file_mode(item.mode(), &path.child("mode"), errors);
}

/// Validates a downward API volume, whose errors name no index.
pub fn validate_downward(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = DownwardAPIVolumeSource::new(node);
    file_mode(source.default_mode(), &path.child("defaultMode"), errors);
    downward_files(source.items(), path, errors);
}

fn downward_files(files: List<'_, DownwardAPIVolumeFile<'_>>, path: &Path<'_>, errors: &mut ErrorList) {
    for file in files.iter() {
        rules::required(file.path(), &path.child("path"), errors);
        non_reserved(file.path(), &path.child("path"), errors);
        match (file.field_ref(), file.resource_field_ref()) {
            (Some(field), resource) => {
                env::field_ref(field, FIELDS, &path.child("fieldRef"), errors);
                if resource.is_some() {
                    let text = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errors.push(FieldError::invalid(path, "resource", text));
                }
            }
            (None, Some(resource)) => env::resource_ref(resource, true, &path.child("resourceFieldRef"), errors),
            (None, None) => errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required")),
        }
        file_mode(file.mode(), &path.child("mode"), errors);
    }
}

/// Validates a projected volume (upstream `validateProjectionSources`).
pub fn validate_projected(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = ProjectedVolumeSource::new(node);
    file_mode(source.default_mode(), &path.child("defaultMode"), errors);
    let mut paths: Seen<&str> = Seen::new();
    let mut claim = |file, owner: &str, errors: &mut ErrorList| {
        if paths.contains(&file) && !file.is_empty() {
            errors.push(FieldError::invalid(path, owner, "conflicting duplicate paths"));
        }
        paths.push(file);
    };
    for (i, one) in source.sources().iter().enumerate() {
        let list = path.child("sources");
        let at = list.index(i);
        let items = [
            ("secret", one.secret().map(|s| (s.name(), s.items()))),
            ("configMap", one.config_map().map(|s| (s.name(), s.items()))),
        ];
        for (field, source) in items {
            let Some((name, items)) = source else { continue };
            rules::required(name, &at.child(field).child("name"), errors);
            items.iter().for_each(|item| claim(item.path(), name, errors));
        }
        if let Some(downward) = one.downward_api() {
            downward_files(downward.items(), &at.child("downwardAPI"), errors);
            downward.items().iter().for_each(|file| claim(file.path(), file.path(), errors));
        }
        if let Some(token) = one.service_account_token() {
            let seconds = token.expiration_seconds().unwrap_or(0);
            let here = at.child("serviceAccountToken");
            if seconds < 600 {
                let text = "may not specify a duration less than 10 minutes";
                errors.push(FieldError::invalid(&here.child("expirationSeconds"), seconds, text));
            }
            if seconds > 1 << 32 {
                let text = "may not specify a duration larger than 2^32 seconds";
                errors.push(FieldError::invalid(&here.child("expirationSeconds"), seconds, text));
            }
            rules::required(token.path(), &path.child("path"), errors);
            non_reserved(token.path(), &path.child("path"), errors);
        }
        if one.node().is_some_and(|n| n.iter().filter(|(_, v)| !v.is_null()).count() > 1) {
            errors.push(FieldError::forbidden(&at, "may not specify more than 1 volume type per source"));
        }
    }
}

/// Validates an ephemeral volume, whose claim lives as long as the pod.
pub fn validate_ephemeral(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    if EphemeralVolumeSource::new(node).volume_claim_template().is_none() {
        errors.push(FieldError::required(&path.child("volumeClaimTemplate"), ""));
    }
}

/// Validates an NFS volume.
pub fn validate_nfs(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = NFSVolumeSource::new(node);
    rules::required(source.server(), &path.child("server"), errors);
    rules::required(source.path(), &path.child("path"), errors);
    if !source.path().starts_with('/') {
        errors.push(FieldError::invalid(&path.child("path"), source.path(), "must be an absolute path"));
    }
}

/// Validates an iSCSI volume.
pub fn validate_iscsi(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let source = ISCSIVolumeSource::new(node);
    rules::required(source.target_portal(), &path.child("targetPortal"), errors);
    let iqn = path.child("iqn");
    if source.iqn().is_empty() {
        errors.push(FieldError::required(&iqn, ""));
    } else if !["iqn", "eui", "naa"].iter().any(|p| source.iqn().starts_with(p)) {
        errors.push(FieldError::invalid(&iqn, source.iqn(), "must be valid format starting with iqn, eui, or naa"));
    }
    range(source.lun(), 0, 255, &path.child("lun"), errors);
}

/// Validates the path of a profile file, relative to the node's profile directory.
pub(super) fn profile(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    descending(text, path, errors);
}

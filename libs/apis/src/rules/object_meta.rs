//! Rules of `metadata`, the same for every kind (upstream: `ValidateObjectMeta`, `ValidateObjectMetaUpdate`).

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path, names};
use oarlock_schema::views::View as _;
use oarlock_schema::views::meta_v1::ObjectMeta;
use oarlock_schema::{Obj, Resource};

use crate::kind::KindRules;
use crate::rules::{Seen, show};

/// The most bytes of all annotations of an object together.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Checks the metadata of an object.
pub fn validate(resource: &Resource, kind: &KindRules, obj: &Obj, errors: &mut ErrorList) {
    let path = Path::new("metadata");
    let meta = obj.meta();
    if !meta.generate_name().is_empty() {
        for text in (kind.name)(meta.generate_name(), true) {
            errors.push(FieldError::invalid(&path.child("generateName"), meta.generate_name(), text));
        }
    }
    if meta.name().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        for text in (kind.name)(meta.name(), false) {
            errors.push(FieldError::invalid(&path.child("name"), meta.name(), text));
        }
    }
    match (resource.namespaced, meta.namespace()) {
        (true, "") => errors.push(FieldError::required(&path.child("namespace"), "")),
        (true, namespace) => {
            for text in super::formats::dns1123_label(namespace) {
                errors.push(FieldError::invalid(&path.child("namespace"), namespace, text));
            }
        }
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(&path.child("namespace"), "not allowed on this type")),
    }
    if meta.generation() < 0 {
        errors.push(FieldError::invalid(
            &path.child("generation"),
            meta.generation(),
            "must be greater than or equal to 0",
        ));
    }
    shared(meta, errors);
    finalizers(meta, &path.child("finalizers"), errors);
}

/// Validates the fields that upstream checks both in new objects and in changes.
fn shared(meta: ObjectMeta<'_>, errors: &mut ErrorList) {
    let path = Path::new("metadata");
    labels(meta, &path.child("labels"), errors);
    annotations(meta, &path.child("annotations"), errors);
    owners(meta, &path.child("ownerReferences"), errors);
}

/// The number of times that a kind's own update rules check metadata again, after the checks that all kinds share.
struct RepeatedChecks {
    /// Checks of the object's metadata.
    object: usize,
    /// Checks of the change of the metadata.
    change: usize,
}

/// Returns the counts, which were measured: upstream calls the same checks in several layers and reports the findings of each.
fn repeated_checks(resource: &Resource, endpoint: &str) -> RepeatedChecks {
    let (object, change) = match (resource.group, resource.kind) {
        _ if !endpoint.is_empty() => (0, 1),
        ("", "Event") | ("policy", "PodDisruptionBudget") => (0, 0),
        ("", "PersistentVolume") | ("storage.k8s.io", "CSINode") => (2, 0),
        ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _)
        | ("", "LimitRange")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("storage.k8s.io", "VolumeAttachment") => (1, 0),
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("autoscaling" | "apiextensions.k8s.io" | "coordination.k8s.io" | "events.k8s.io" | "scheduling.k8s.io", _)
        | ("batch", "CronJob")
        | ("", "PodTemplate" | "ReplicationController" | "ResourceQuota" | "Service")
        | ("networking.k8s.io", "ServiceCIDR")
        | ("resource.k8s.io", "ResourceSlice")
        | ("storage.k8s.io", "CSIDriver") => (0, 1),
        _ => (1, 1),
    };
    RepeatedChecks { object, change }
}

/// Returns every error in the metadata of a change through an endpoint (`""` is the object itself), as often as upstream reports the error.
pub fn validate_change(resource: &Resource, kind: &KindRules, endpoint: &str, new: &Obj, old: &Obj) -> ErrorList {
    let (mut object, mut change) = (ErrorList::default(), ErrorList::default());
    validate(resource, kind, new, &mut object);
    validate_update(resource, new, old, &mut change);
    if object.is_empty() && change.is_empty() {
        return object;
    }
    shared(new.meta(), &mut change);
    let times = repeated_checks(resource, endpoint);
    let mut errors = ErrorList::default();
    for (found, times) in [(&object, 1), (&change, 1 + times.change), (&object, times.object)] {
        for _ in 0..times {
            found.as_slice().iter().for_each(|error| errors.push(error.clone()));
        }
    }
    errors
}

/// Checks what a change does to the metadata.
pub fn validate_update(resource: &Resource, new: &Obj, old: &Obj, errors: &mut ErrorList) {
    let path = Path::new("metadata");
    let (new, old) = (new.meta(), old.meta());
    let immutable = "field is immutable";
    for (field, now, before) in [
        ("name", new.name(), old.name()),
        ("namespace", new.namespace(), old.namespace()),
        ("uid", new.uid(), old.uid()),
        ("creationTimestamp", new.creation_timestamp(), old.creation_timestamp()),
    ] {
        if now != before && (field != "namespace" || resource.namespaced) {
            errors.push(FieldError::invalid(&path.child(field), now, immutable));
        }
    }
    let (now, before) = (new.deletion_timestamp(), old.deletion_timestamp());
    if now != before {
        let shown = Raw(now.map_or_else(|| "null".to_owned(), oarlock_meta::quote::quote));
        errors.push(FieldError::invalid(&path.child("deletionTimestamp"), shown, immutable));
    }
    let (now, before) = (new.deletion_grace_period_seconds(), old.deletion_grace_period_seconds());
    if now != before {
        let shown = Raw(now.map_or_else(|| "null".to_owned(), |seconds| seconds.to_string()));
        errors.push(FieldError::invalid(&path.child("deletionGracePeriodSeconds"), shown, immutable));
    }
    if old.deletion_timestamp().is_some_and(|t| !t.is_empty()) {
        let known: Seen<&str> = old.finalizers().iter().collect();
        let added: Vec<&str> = new.finalizers().iter().filter(|f| !known.contains(f)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|f| format!("\"{f}\"")).collect::<Vec<_>>().join(", ");
            let text = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            errors.push(FieldError::forbidden(&path.child("finalizers"), text));
        }
    }
}

/// Validates that a name is the one that the object's spec requires; `why` explains the requirement.
pub fn composed_name(meta: ObjectMeta<'_>, wanted: &str, why: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("metadata");
    for (field, name) in [("generateName", meta.generate_name()), ("name", meta.name())] {
        if !name.is_empty() && name != wanted {
            errors.push(FieldError::invalid(&at.child(field), name, why));
        }
    }
}

/// Checks label keys and values.
pub fn labels(meta: ObjectMeta<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in meta.labels().iter() {
        for text in names::label_key_errors(key) {
            errors.push(FieldError::invalid(path, key, text));
        }
        for text in names::label_value_errors(value) {
            errors.push(FieldError::invalid(path, value, text));
        }
    }
}

/// Checks annotation keys and the size of all annotations together.
pub fn annotations(meta: ObjectMeta<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut size = 0;
    for (key, value) in meta.annotations().iter() {
        for text in names::label_key_errors(&key.to_ascii_lowercase()) {
            errors.push(FieldError::invalid(path, key, text));
        }
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS_BYTES));
    }
}

/// Validates like upstream's `ValidateOwnerReferences`, whose paths do not say which reference is wrong.
fn owners(meta: ObjectMeta<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut controller: Option<String> = None;
    for owner in meta.owner_references().iter() {
        let version = owner.api_version();
        if version.is_empty() || version.matches('/').count() > 1 || version.ends_with('/') {
            errors.push(FieldError::invalid(&path.child("apiVersion"), version, "version must not be empty"));
        }
        for (field, value) in [("kind", owner.kind()), ("name", owner.name()), ("uid", owner.uid())] {
            if value.is_empty() {
                errors.push(FieldError::invalid(&path.child(field), value, "must not be empty"));
            }
        }
        if (version, owner.kind()) == ("v1", "Event") {
            let shown = owner.node().map(show::node).unwrap_or_default();
            errors.push(FieldError::invalid(path, Raw(shown), "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.controller() == Some(true) {
            let me = format!("{}/{}", owner.kind(), owner.name());
            match &controller {
                // The error shows all references.
                Some(_) if errors.is_full() => {}
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    Raw(show::items(meta.owner_references().values())),
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {me}"),
                )),
                None => controller = Some(me),
            }
        }
    }
}

fn finalizers(meta: ObjectMeta<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (mut orphan, mut foreground) = (false, false);
    for (i, name) in meta.finalizers().iter().enumerate() {
        let at = path.index(i);
        for text in names::label_key_errors(name) {
            errors.push(FieldError::invalid(&at, name, text));
        }
        // Finalizers without a domain are reserved for Kubernetes itself.
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            errors.push(FieldError::invalid(
                &at,
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
        orphan |= name == "orphan";
        foreground |= name == "foregroundDeletion";
    }
    if orphan && foreground {
        errors.push(FieldError::invalid(
            path,
            Raw(show::items(meta.finalizers().values())),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

//! Defaults and validation of containers: regular, init and ephemeral ones.

use std::collections::{BTreeSet, HashMap};

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Container, ContainerMut, EphemeralContainerMut, SecurityContext};
use oarlock_schema::{Struct, Value};

use crate::rules::{Seen, descending, each, formats, image, label, no_backsteps, one_of, port, range, show};

/// Sets defaults like upstream's `SetDefaults_Container`, except the constant ones.
pub fn default(node: &mut Struct) {
    let mut container = ContainerMut::new(node);
    if container.read().image_pull_policy().is_empty() {
        let policy = image::pull_policy(container.read().image());
        container.set_image_pull_policy(policy);
    }
}

/// Sets defaults like upstream's `SetDefaults_EphemeralContainer`, except the constant ones.
pub fn default_ephemeral(node: &mut Struct) {
    let mut container = EphemeralContainerMut::new(node);
    if container.read().image_pull_policy().is_empty() {
        let policy = image::pull_policy(container.read().image());
        container.set_image_pull_policy(policy);
    }
}

/// Validates the rules of all containers (upstream `validateContainerCommon`); the rules of PodSpec check the rest.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let container = Container::new(node);
    if !container.name().is_empty() {
        label(container.name(), &path.child("name"), errors);
    }
    if !container.termination_message_policy().is_empty() {
        let policies = ["File", "FallbackToLogsOnError"];
        one_of(container.termination_message_policy(), &policies, &path.child("terminationMessagePolicy"), errors);
    }
    ports(container, &path.child("ports"), errors);
    env_from(container, &path.child("envFrom"), errors);
    mounts(container, &path.child("volumeMounts"), errors);
    devices(container, &path.child("volumeDevices"), errors);
}

fn ports(container: Container<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut names: Seen<&str> = Seen::new();
    for (i, one) in container.ports().iter().enumerate() {
        let at = path.index(i);
        if !one.name().is_empty() {
            let wrong = formats::port_name(one.name());
            if !wrong.is_empty() {
                each(wrong, one.name(), &at.child("name"), errors);
            } else if names.contains(&one.name()) {
                errors.push(FieldError::duplicate(&at.child("name"), one.name()));
            } else {
                names.push(one.name());
            }
        }
        match one.container_port() {
            0 => errors.push(FieldError::required(&at.child("containerPort"), "")),
            n => port(n, &at.child("containerPort"), errors),
        }
        if one.host_port() != 0 {
            port(one.host_port(), &at.child("hostPort"), errors);
        }
    }
}

fn env_from(container: Container<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    for (i, source) in container.env_from().iter().enumerate() {
        let at = path.index(i);
        if !source.prefix().is_empty() {
            each(formats::env_name(source.prefix()), source.prefix(), &at.child("prefix"), errors);
        }
        let named = [
            ("configMapRef", source.config_map_ref().map(|r| r.name())),
            ("secretRef", source.secret_ref().map(|r| r.name())),
        ];
        for (field, name) in named {
            match name {
                None => {}
                Some("") => errors.push(FieldError::required(&at.child(field).child("name"), "")),
                Some(name) => crate::rules::subdomain(name, &at.child(field).child("name"), errors),
            }
        }
        match named.iter().filter(|(_, name)| name.is_some()).count() {
            0 => errors.push(FieldError::invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => errors.push(FieldError::invalid(path, "", "may not have more than one field specified at a time")),
        }
    }
}

/// Validates like upstream's `ValidateVolumeMounts`, whose paths omit the index for fields of a mount.
fn mounts(container: Container<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut paths: Seen<&str> = Seen::new();
    let devices = container.volume_devices();
    let (device_names, device_paths) =
        (Counts::of(devices.iter().map(|d| d.name())), Counts::of(devices.iter().map(|d| d.device_path())));
    for (i, mount) in container.volume_mounts().iter().enumerate() {
        let at = path.index(i);
        if mount.name().is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        if mount.mount_path().is_empty() {
            errors.push(FieldError::required(&at.child("mountPath"), ""));
        }
        if paths.contains(&mount.mount_path()) {
            errors.push(FieldError::invalid(&at.child("mountPath"), mount.mount_path(), "must be unique"));
        }
        paths.push(mount.mount_path());
        for _ in device_names.times(mount.name(), errors) {
            errors.push(FieldError::invalid(
                &at.child("name"),
                mount.name(),
                "must not already exist in volumeDevices",
            ));
        }
        for _ in device_paths.times(mount.mount_path(), errors) {
            let text = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&at.child("mountPath"), mount.mount_path(), text));
        }
        if !mount.sub_path().is_empty() {
            descending(mount.sub_path(), &path.child("subPath"), errors);
        }
        if !mount.sub_path_expr().is_empty() {
            if !mount.sub_path().is_empty() {
                let text = "subPathExpr and subPath are mutually exclusive";
                errors.push(FieldError::invalid(&at.child("subPathExpr"), mount.sub_path_expr(), text));
            }
            descending(mount.sub_path_expr(), &path.child("subPathExpr"), errors);
        }
        if let Some(mode) = mount.mount_propagation() {
            let here = path.child("mountPropagation");
            one_of(mode, &["Bidirectional", "HostToContainer", "None"], &here, errors);
            let privileged = container.security_context().and_then(|s| s.privileged()) == Some(true);
            if mode == "Bidirectional" && !privileged {
                let text = "Bidirectional mount propagation is available only to privileged containers";
                errors.push(FieldError::forbidden(&here, text));
            }
        }
        let here = path.child("recursiveReadOnly");
        match mount.recursive_read_only() {
            None | Some("Disabled") => {}
            Some("Enabled" | "IfPossible") => {
                if !mount.read_only() {
                    errors.push(FieldError::forbidden(&here, "may only be specified when readOnly is true"));
                }
                if mount.mount_propagation().is_some_and(|mode| mode != "None") {
                    let text = "may only be specified when mountPropagation is None or not specified";
                    errors.push(FieldError::forbidden(&here, text));
                }
            }
            Some(other) => errors.push(FieldError::not_supported(&here, other, &["Disabled", "Enabled", "IfPossible"])),
        }
    }
}

fn devices(container: Container<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (mut names, mut paths): (Seen<&str>, Seen<&str>) = (Seen::new(), Seen::new());
    let mounts = container.volume_mounts();
    let (mount_names, mount_paths) =
        (Counts::of(mounts.iter().map(|m| m.name())), Counts::of(mounts.iter().map(|m| m.mount_path())));
    for (i, device) in container.volume_devices().iter().enumerate() {
        let at = path.index(i);
        let (name, device_path) = (device.name(), device.device_path());
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else if names.contains(&name) {
            errors.push(FieldError::invalid(&at.child("name"), name, "must be unique"));
        }
        if device_path.is_empty() {
            errors.push(FieldError::required(&at.child("devicePath"), ""));
        }
        if paths.contains(&device_path) {
            errors.push(FieldError::invalid(&at.child("devicePath"), device_path, "must be unique"));
        }
        let mut backsteps = ErrorList::new();
        no_backsteps(device_path, &at, &mut backsteps);
        if !backsteps.is_empty() {
            errors.push(FieldError::invalid(&at.child("devicePath"), device_path, "can not contain backsteps ('..')"));
        }
        names.push(name);
        paths.push(device_path);
        for _ in mount_names.times(name, errors) {
            errors.push(FieldError::invalid(&at.child("name"), name, "must not already exist in volumeMounts"));
        }
        for _ in mount_paths.times(device_path, errors) {
            let text = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&at.child("devicePath"), device_path, text));
        }
    }
}

/// Validates the privileges of a container (upstream `ValidateSecurityContext`).
pub fn validate_security(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let security = SecurityContext::new(node);
    for (field, id) in [("runAsUser", security.run_as_user()), ("runAsGroup", security.run_as_group())] {
        if let Some(id) = id {
            user_id(id, &path.child(field), errors);
        }
    }
    if security.allow_privilege_escalation() == Some(false) {
        let shown = || oarlock_meta::field::Raw(show::internal(node));
        if security.privileged() == Some(true) {
            let text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(path, shown(), text));
        }
        let admin = security.capabilities().is_some_and(|c| c.add().iter().any(|name| name == "CAP_SYS_ADMIN"));
        if admin {
            let text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(path, shown(), text));
        }
    }
}

/// Validates `procMount`: `Unmasked` is allowed only in pods with a user namespace of their own.
pub(super) fn proc_mount(one: Container<'_>, host_users: Option<bool>, path: &Path<'_>, errors: &mut ErrorList) {
    if host_users != Some(false) && one.security_context().and_then(|s| s.proc_mount()) == Some("Unmasked") {
        let at = path.child("securityContext");
        let text = "`hostUsers` must be false to use `Unmasked`";
        errors.push(FieldError::invalid(&at.child("procMount"), "Unmasked", text));
    }
}

/// Validates a user or group number.
pub(super) fn user_id(id: i64, path: &Path<'_>, errors: &mut ErrorList) {
    range(id, 0, i64::from(i32::MAX), path, errors);
}

/// Validates the resize policy, which says whether a change of resources restarts the container (upstream `validateResizePolicy`).
pub(super) fn resize_policy(container: Container<'_>, never_restarts: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: Seen<&str> = Seen::new();
    for (i, policy) in container.resize_policy().iter().enumerate() {
        if seen.contains(&policy.resource_name()) {
            errors.push(FieldError::duplicate(&path.index(i), policy.resource_name()));
        }
        seen.push(policy.resource_name());
        for (value, supported) in [
            (policy.resource_name(), ["cpu", "memory"]),
            (policy.restart_policy(), ["NotRequired", "RestartContainer"]),
        ] {
            match value {
                "" => errors.push(FieldError::required(path, "")),
                value => one_of(value, &supported, path, errors),
            }
        }
        if never_restarts && policy.restart_policy() != "NotRequired" {
            let text = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, policy.restart_policy(), text));
        }
    }
}

/// The volumes of a pod by name; of several with one name the first counts.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// The resource claims and volumes of a pod to which its containers can refer.
pub(super) struct Known<'a> {
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) volumes: Volumes<'a>,
}

/// Indexes the volumes of a pod by name, once for all its containers.
pub(super) fn by_name(volumes: &[Value]) -> Volumes<'_> {
    let mut out = Volumes::new();
    for volume in volumes {
        if let Some(name) = volume.get("name").and_then(Value::as_str) {
            out.entry(name).or_insert(volume);
        }
    }
    out
}

/// The number of occurrences of each text in a list.
struct Counts<'a>(HashMap<&'a str, usize>);

impl<'a> Counts<'a> {
    fn of(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut out = HashMap::new();
        texts.for_each(|text| *out.entry(text).or_default() += 1);
        Self(out)
    }

    /// Returns the number of errors for a text: upstream reports a text as often as the other list contains it. Empty once the list of errors is full.
    fn times(&self, text: &str, errors: &ErrorList) -> std::ops::Range<usize> {
        0..if errors.is_full() { 0 } else { self.0.get(text).copied().unwrap_or_default() }
    }
}

/// Validates that the volumes to which a container refers exist.
pub(super) fn volumes(container: Container<'_>, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let find = |name: &str| volumes.get(name);
    for (i, mount) in container.volume_mounts().iter().enumerate() {
        if find(mount.name()).is_none() {
            errors.push(FieldError::not_found(&path.child("volumeMounts").index(i).child("name"), mount.name()));
        }
    }
    for (i, device) in container.volume_devices().iter().enumerate() {
        let name = device.name();
        match find(name) {
            None => errors.push(FieldError::not_found(&path.child("volumeDevices").index(i).child("name"), name)),
            Some(volume) if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() => {
                let text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(&path.child("volumeDevices").index(i).child("name"), name, text));
            }
            Some(_) => {}
        }
    }
}

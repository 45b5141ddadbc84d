//! Builds the `ContainerConfig` of a container (upstream `generateContainerConfig`).

use std::collections::BTreeMap;
use std::path::Path;

use oarlock_schema::views::core_v1::{Container, ContainerPort, Pod};
use serde_json::Value;

use super::{CONTAINER_NAME, sandbox};
use crate::containerd::{MESSAGE_PATH, MESSAGE_POLICY};
use crate::cri::Image;
use crate::cri::v1::security_profile::ProfileType;
use crate::cri::v1::{self, SupplementalGroupsPolicy};
use crate::environment::{Variables, command_line};
use crate::pod_error::PodError;
use crate::resources::linux_resources;
use crate::security_context::{ImageUser, Seccomp, security_context};

/// Inputs for one start of a container, besides its spec.
#[derive(Debug)]
pub(crate) struct Made<'a> {
    /// Number of earlier containers of this name in the pod.
    pub(crate) attempt: u32,
    pub(crate) image: &'a Image,
    pub(crate) variables: &'a Variables,
    pub(crate) mounts: Vec<v1::Mount>,
    /// Directory of Localhost seccomp profiles.
    pub(crate) seccomp: &'a Path,
    /// Bytes of the node's memory, and the kernel's huge page sizes in bytes.
    pub(crate) memory: i64,
    pub(crate) pages: &'a [u64],
}

/// Returns the configuration of a container.
///
/// # Errors
/// When the container must not run: the message of `CreateContainerConfigError`.
pub(crate) fn container(pod: Pod<'_>, spec: Container<'_>, made: Made<'_>) -> Result<v1::ContainerConfig, PodError> {
    let security = security(pod, spec, &made)?;
    let (command, args) = command_line(spec, made.variables);
    let mut labels = sandbox::pod_labels(pod);
    labels.insert(CONTAINER_NAME.to_owned(), spec.name().to_owned());
    let envs = made.variables.iter().map(|(key, value)| v1::KeyValue { key: key.clone(), value: value.clone() });
    Ok(v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: spec.name().to_owned(), attempt: made.attempt }),
        image: Some(v1::ImageSpec { image: made.image.own.to_string(), user_specified_image: spec.image().to_owned() }),
        command,
        args,
        working_dir: spec.working_dir().to_owned(),
        envs: envs.collect(),
        mounts: made.mounts,
        labels,
        annotations: annotations(pod, spec, made.attempt),
        log_path: format!("{}/{}.log", spec.name(), made.attempt),
        stdin: spec.stdin(),
        stdin_once: spec.stdin_once(),
        tty: spec.tty(),
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(resources(pod, spec, made.memory, made.pages)),
            security_context: Some(security),
        }),
        devices: Vec::new(),
    })
}

fn resources(pod: Pod<'_>, spec: Container<'_>, memory: i64, pages: &[u64]) -> v1::LinuxContainerResources {
    let own = linux_resources(pod, spec, memory, pages);
    let hugepage = |(page_size, limit): (String, u64)| v1::HugepageLimit { page_size, limit };
    v1::LinuxContainerResources {
        cpu_period: own.cpu_period,
        cpu_quota: own.cpu_quota,
        cpu_shares: own.cpu_shares,
        memory_limit_in_bytes: own.memory_limit,
        oom_score_adj: own.oom_score_adj,
        hugepage_limits: own.hugepages.into_iter().map(hugepage).collect(),
    }
}

fn security(pod: Pod<'_>, spec: Container<'_>, made: &Made<'_>) -> Result<v1::LinuxContainerSecurityContext, PodError> {
    // An image without a user runs as root.
    let root = made.image.user.is_none() && made.image.username.is_empty();
    let user = ImageUser { uid: made.image.user.or(root.then_some(0)), name: made.image.username.to_string() };
    let own = security_context(pod, spec, &user, made.seccomp)?;
    let (profile_type, localhost_ref) = match own.seccomp {
        Seccomp::Unconfined => (ProfileType::Unconfined, String::new()),
        Seccomp::RuntimeDefault => (ProfileType::RuntimeDefault, String::new()),
        Seccomp::Localhost(file) => (ProfileType::Localhost, file.display().to_string()),
    };
    let capabilities =
        v1::Capability { add_capabilities: own.add_capabilities, drop_capabilities: own.drop_capabilities };
    let groups = if own.strict_groups { SupplementalGroupsPolicy::Strict } else { SupplementalGroupsPolicy::Merge };
    let number = |value: Option<i64>| value.map(|value| v1::Int64Value { value });
    Ok(v1::LinuxContainerSecurityContext {
        capabilities: Some(capabilities),
        privileged: own.privileged,
        namespace_options: Some(sandbox::namespaces(pod)),
        selinux_options: own.selinux.map(|[user, role, r#type, level]| v1::SeLinuxOption { user, role, r#type, level }),
        run_as_user: number(own.run_as_user),
        run_as_username: own.run_as_username,
        readonly_rootfs: own.readonly_rootfs,
        supplemental_groups: own.supplemental_groups,
        supplemental_groups_policy: groups as i32,
        no_new_privs: own.no_new_privs,
        run_as_group: number(own.run_as_group),
        masked_paths: own.masked_paths,
        readonly_paths: own.readonly_paths,
        seccomp: Some(v1::SecurityProfile { profile_type: profile_type as i32, localhost_ref }),
    })
}

/// Returns the annotations from which a restarted kubelet recovers the container's settings.
fn annotations(pod: Pod<'_>, spec: Container<'_>, attempt: u32) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut set = |key: &str, value: String| all.insert(key.to_owned(), value);
    set("io.kubernetes.container.restartCount", attempt.to_string());
    set(MESSAGE_PATH, spec.termination_message_path().to_owned());
    set(MESSAGE_POLICY, spec.termination_message_policy().to_owned());
    if let Some(seconds) = pod.metadata().deletion_grace_period_seconds() {
        set("io.kubernetes.pod.deletionGracePeriod", seconds.to_string());
    }
    if let Some(seconds) = pod.spec().termination_grace_period_seconds() {
        set("io.kubernetes.pod.terminationGracePeriod", seconds.to_string());
    }
    if !spec.ports().is_empty() {
        let ports = spec.ports().iter().map(port).collect();
        set("io.kubernetes.container.ports", Value::Array(ports).to_string());
    }
    all
}

/// Formats a port the way Go does, without zero fields.
fn port(port: ContainerPort<'_>) -> Value {
    let known = [
        ("name", Value::from(port.name())),
        ("hostPort", port.host_port().into()),
        ("containerPort", port.container_port().into()),
        ("protocol", port.protocol().into()),
        ("hostIP", port.host_ip().into()),
    ];
    let set = known.into_iter().filter(|(_, value)| value.as_str() != Some("") && value.as_i64() != Some(0));
    Value::Object(set.map(|(key, value)| (key.to_owned(), value)).collect())
}

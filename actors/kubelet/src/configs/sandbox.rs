//! Builds the `PodSandboxConfig` of a pod (upstream `generatePodSandboxConfig`).

use std::collections::BTreeMap;
use std::path::Path;

use oarlock_schema::views::core_v1::{ContainerPort, Pod};

use super::{POD_NAME, POD_NAMESPACE, POD_UID, log_directory};
use crate::cri::v1::security_profile::ProfileType;
use crate::cri::v1::{self, NamespaceMode};
use crate::dns::{self, Dns};
use crate::event_sender::WarningEvent;
use crate::hosts;
use crate::pod_error::PodError;

/// Returns the configuration of a pod's sandbox, with reasons and messages of Warning events about the pod. `logs` is the directory of all pods' logs.
///
/// # Errors
/// When the pod cannot have a sandbox; upstream's text.
pub(crate) fn sandbox(
    pod: Pod<'_>,
    attempt: u32,
    dns: &Dns,
    logs: &Path,
    cgroup_parent: String,
) -> Result<(v1::PodSandboxConfig, Vec<WarningEvent>), PodError> {
    let (meta, spec) = (pod.metadata(), pod.spec());
    let (resolver, warnings) = dns::of_pod(pod, dns)?;
    let mut labels = pairs(meta.labels());
    labels.extend(pod_labels(pod));
    let sysctls = spec.security_context().map(|context| context.sysctls());
    let sysctls = sysctls.iter().flat_map(|all| all.iter()).map(|one| (one.name().to_owned(), one.value().to_owned()));
    let config = v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: meta.name().to_owned(),
            uid: meta.uid().to_owned(),
            namespace: meta.namespace().to_owned(),
            attempt,
        }),
        hostname: hostname(pod, &dns.domain)?,
        log_directory: logs.join(log_directory(pod)).display().to_string(),
        dns_config: Some(v1::DnsConfig {
            servers: resolver.servers,
            searches: resolver.searches,
            options: resolver.options,
        }),
        port_mappings: spec.containers().iter().flat_map(|one| one.ports().iter().map(port)).collect(),
        labels,
        annotations: pairs(meta.annotations()),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent,
            security_context: Some(security(pod)),
            sysctls: sysctls.collect(),
        }),
    };
    Ok((config, warnings))
}

/// Returns the pod's host name; empty in the node's network, where the node's name applies.
fn hostname(pod: Pod<'_>, cluster_domain: &str) -> Result<String, PodError> {
    let spec = pod.spec();
    if spec.host_network() {
        return Ok(String::new());
    }
    let (host, domain) = hosts::host_name(pod, cluster_domain)?;
    if spec.set_hostname_as_fqdn() != Some(true) || domain.is_empty() {
        return Ok(host);
    }
    let whole = format!("{host}.{domain}");
    // The kernel's limit for host names (`HOST_NAME_MAX`).
    if whole.len() > 64 {
        return Err(PodError::Invalid(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {whole} is too long \
             (64 characters is the max, {} characters requested)",
            whole.len()
        )));
    }
    Ok(whole)
}

fn security(pod: Pod<'_>) -> v1::LinuxSandboxSecurityContext {
    let spec = pod.spec();
    let own = spec.security_context();
    let number = |value: Option<i64>| value.map(|value| v1::Int64Value { value });
    let mut containers = spec.init_containers().iter().chain(spec.containers().iter());
    let groups = own.iter().flat_map(|own| own.fs_group().into_iter().chain(own.supplemental_groups().iter()));
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        run_as_user: number(own.and_then(|own| own.run_as_user())),
        run_as_group: number(own.and_then(|own| own.run_as_group())),
        readonly_rootfs: false,
        supplemental_groups: groups.collect(),
        privileged: containers.any(|one| one.security_context().and_then(|own| own.privileged()) == Some(true)),
        // The sandbox's own process needs no more system calls, whatever the profiles of the containers.
        seccomp: Some(v1::SecurityProfile {
            profile_type: ProfileType::RuntimeDefault as i32,
            localhost_ref: String::new(),
        }),
    }
}

/// Returns which Linux namespaces the pod shares with the node.
pub(super) fn namespaces(pod: Pod<'_>) -> v1::NamespaceOption {
    let spec = pod.spec();
    let node = |on: bool, own: NamespaceMode| if on { NamespaceMode::Node } else { own } as i32;
    let shared = spec.share_process_namespace() == Some(true);
    v1::NamespaceOption {
        network: node(spec.host_network(), NamespaceMode::Pod),
        pid: node(spec.host_pid(), if shared { NamespaceMode::Pod } else { NamespaceMode::Container }),
        ipc: node(spec.host_ipc(), NamespaceMode::Pod),
    }
}

/// Returns the labels by which the kubelet recognizes a pod's sandbox.
pub(super) fn pod_labels(pod: Pod<'_>) -> BTreeMap<String, String> {
    let meta = pod.metadata();
    let own = [(POD_NAME, meta.name()), (POD_NAMESPACE, meta.namespace()), (POD_UID, meta.uid())];
    own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn pairs(map: oarlock_schema::views::Map<'_, &str>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn port(port: ContainerPort<'_>) -> v1::PortMapping {
    let protocol = match port.protocol() {
        "UDP" => v1::Protocol::Udp,
        "SCTP" => v1::Protocol::Sctp,
        _ => v1::Protocol::Tcp,
    };
    v1::PortMapping {
        protocol: protocol as i32,
        container_port: i32::try_from(port.container_port()).unwrap_or(0),
        host_port: i32::try_from(port.host_port()).unwrap_or(0),
        host_ip: port.host_ip().to_owned(),
    }
}

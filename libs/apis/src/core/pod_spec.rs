//! Defaults and validation of PodSpec, in pods and in templates.

use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_pods::sidecar::is_sidecar;
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Container, PodSpec, PodSpecMut};

use super::container::Known;
use super::{container, probe, resources};
use crate::rules::{self, Seen, formats, labels, optional_subdomain, range, show};

/// Copies the service account to its deprecated name (upstream: `Convert_v1_PodSpec_To_core_PodSpec` and back).
pub fn default(node: &mut Struct) {
    let mut spec = PodSpecMut::new(node);
    let (name, old) = (spec.read().service_account_name(), spec.read().service_account());
    let wanted = if name.is_empty() { old } else { name }.to_owned();
    if wanted.is_empty() {
        return;
    }
    if name != wanted {
        spec.set_service_account_name(wanted.as_str());
    }
    spec.set_service_account(wanted);
}

/// Validates like upstream's `ValidatePodSpec`, except the rules of nested types.
pub fn validate(node: &Struct, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = PodSpec::new(node);
    volumes(spec, &path.child("volumes"), errors);
    containers(spec, path, errors);
    policies(spec, path, errors);
    names(spec, path, errors);
    security(spec, path, errors);
    dns(spec, &path.child("dnsConfig"), errors);
    operating_system(spec, path, errors);
    super::scheduling::gates(spec, &path.child("schedulingGates"), errors);
    super::scheduling::spread(spec, &path.child("topologySpreadConstraints"), errors);
}

fn volumes(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: Seen<&str> = Seen::new();
    for (i, volume) in spec.volumes().iter().enumerate() {
        let name = volume.name();
        if !name.is_empty() && seen.contains(&name) {
            errors.push(FieldError::duplicate(&path.index(i).child("name"), name));
        }
        seen.push(name);
        let tokens = volume.projected().map(|p| p.sources());
        for (j, source) in tokens.iter().flat_map(|sources| sources.iter().enumerate()) {
            if source.service_account_token().is_some() && spec.service_account_name().is_empty() {
                let at = path.index(i);
                let at = at.child("projected");
                let at = at.child("sources");
                let at = at.index(j);
                errors.push(FieldError::forbidden(
                    &at.child("serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                ));
            }
        }
    }
}

fn containers(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if spec.containers().is_empty() {
        errors.push(FieldError::required(&path.child("containers"), ""));
    }
    let known = Known {
        claims: spec.resource_claims().iter().map(|c| c.name()).collect(),
        volumes: container::by_name(spec.volumes().values()),
    };
    let mut names: Seen<&str> = Seen::new();
    let mut host_ports = Seen::new();
    for (i, one) in spec.containers().iter().enumerate() {
        let list = path.child("containers");
        let at = list.index(i);
        common(spec, one, &known, &mut names, &at, errors);
        probe::of_container(one, spec.termination_grace_period_seconds(), &at, errors);
        conflicts(one, &mut host_ports, &at, errors);
    }
    for (i, one) in spec.init_containers().iter().enumerate() {
        let list = path.child("initContainers");
        let at = list.index(i);
        common(spec, one, &known, &mut names, &at, errors);
        // Init containers run one after another, so several may use the same ports.
        conflicts(one, &mut Seen::new(), &at, errors);
        if is_sidecar(one) {
            probe::of_container(one, spec.termination_grace_period_seconds(), &at, errors);
            continue;
        }
        let set = [
            ("lifecycle", one.lifecycle().is_some()),
            ("livenessProbe", one.liveness_probe().is_some()),
            ("readinessProbe", one.readiness_probe().is_some()),
            ("startupProbe", one.startup_probe().is_some()),
        ];
        for (field, _) in set.iter().filter(|(_, set)| *set) {
            errors.push(FieldError::forbidden(
                &at.child(field),
                "may not be set for init containers without restartPolicy=Always",
            ));
        }
    }
    super::ephemeral::in_spec(spec, &known, &path.child("ephemeralContainers"), errors);
}

fn common<'a>(
    spec: PodSpec<'a>,
    one: Container<'a>,
    known: &Known<'_>,
    names: &mut Seen<&'a str>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if names.contains(&one.name()) && !one.name().is_empty() {
        errors.push(FieldError::duplicate(&path.child("name"), one.name()));
    }
    names.push(one.name());
    if let Some(policy) = one.restart_policy() {
        rules::one_of(policy, &["Always", "Never", "OnFailure"], &path.child("restartPolicy"), errors);
    }
    resources::requirements(one.resources(), false, &known.claims, &path.child("resources"), errors);
    container::volumes(one, &known.volumes, path, errors);
    container::resize_policy(one, spec.restart_policy() == "Never", &path.child("resizePolicy"), errors);
    if spec.host_network() {
        for (i, port) in one.ports().iter().enumerate() {
            if port.host_port() != port.container_port() {
                let at = path.child("ports");
                let at = at.index(i);
                let text = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&at.child("hostPort"), port.host_port(), text));
            }
        }
    }
    container::proc_mount(one, spec.host_users(), path, errors);
}

/// Validates that containers that run together do not use the same host port.
fn conflicts<'a>(
    one: Container<'a>,
    taken: &mut Seen<(&'a str, &'a str, i64)>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (i, port) in one.ports().iter().enumerate() {
        let key = (port.protocol(), port.host_ip(), port.host_port());
        if key.2 == 0 {
            continue;
        }
        if taken.contains(&key) {
            let at = path.child("ports");
            let at = at.index(i);
            errors.push(FieldError::duplicate(&at.child("hostPort"), format!("{}/{}/{}", key.0, key.1, key.2)));
        }
        taken.push(key);
    }
}

fn policies(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(name) = spec.hostname_override() {
        rules::subdomain(name, &path.child("hostnameOverride"), errors);
    }
    if !spec.restart_policy().is_empty() {
        rules::one_of(spec.restart_policy(), &["Always", "OnFailure", "Never"], &path.child("restartPolicy"), errors);
    }
    if !spec.dns_policy().is_empty() {
        let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
        rules::one_of(spec.dns_policy(), &known, &path.child("dnsPolicy"), errors);
    }
    if let Some(seconds) = spec.active_deadline_seconds() {
        range(seconds, 1, i64::from(i32::MAX), &path.child("activeDeadlineSeconds"), errors);
    }
    for (resource, text) in spec.overhead().iter() {
        let at = path.child("overhead");
        let at = at.child("limits");
        resources::amount(resource, text, &at.key(resource), errors);
    }
    super::pod_level::validate(spec, &path.child("resources"), errors);
}

fn names(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    labels(spec.node_selector(), &path.child("nodeSelector"), errors);
    optional_subdomain(spec.service_account_name(), &path.child("serviceAccountName"), errors);
    optional_subdomain(spec.node_name(), &path.child("nodeName"), errors);
    optional_subdomain(spec.priority_class_name(), &path.child("priorityClassName"), errors);
    if let Some(name) = spec.runtime_class_name() {
        rules::subdomain(name, &path.child("runtimeClassName"), errors);
    }
    rules::preemption(spec.preemption_policy(), &path.child("preemptionPolicy"), errors);
    for (field, value) in [("hostname", spec.hostname()), ("subdomain", spec.subdomain())] {
        if !value.is_empty() {
            rules::label(value, &path.child(field), errors);
        }
    }
    for (i, gate) in spec.readiness_gates().iter().enumerate() {
        let at = path.child("readinessGates");
        let at = at.index(i);
        rules::qualified(gate.condition_type(), &at.child("conditionType"), errors);
    }
    for (i, alias) in spec.host_aliases().iter().enumerate() {
        let at = path.child("hostAliases");
        let at = at.index(i);
        rules::ip(alias.ip(), &at.child("ip"), errors);
        for (j, name) in alias.hostnames().iter().enumerate() {
            rules::subdomain(name, &at.child("hostnames").index(j), errors);
        }
    }
}

fn security(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("securityContext");
    if spec.share_process_namespace() == Some(true) && spec.host_pid() {
        let text = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&at.child("shareProcessNamespace"), true, text));
    }
    if spec.host_users() == Some(false) {
        for (field, set) in
            [("hostNetwork", spec.host_network()), ("HostPID", spec.host_pid()), ("HostIPC", spec.host_ipc())]
        {
            if set {
                errors.push(FieldError::forbidden(&path.child(field), "when `hostUsers` is false"));
            }
        }
    }
    let Some(context) = spec.security_context() else { return };
    let ids =
        [("fsGroup", context.fs_group()), ("runAsUser", context.run_as_user()), ("runAsGroup", context.run_as_group())];
    for (field, id) in ids {
        if let Some(id) = id {
            container::user_id(id, &at.child(field), errors);
        }
    }
    for (i, id) in context.supplemental_groups().iter().enumerate() {
        container::user_id(id, &at.child("supplementalGroups").index(i), errors);
    }
    // Upstream offers `MountOption` only with the feature gate SELinuxMount.
    if let Some(policy) = context.se_linux_change_policy() {
        rules::one_of(policy, &["Recursive"], &at.child("seLinuxChangePolicy"), errors);
    }
    let mut seen: Seen<&str> = Seen::new();
    for (i, sysctl) in context.sysctls().iter().enumerate() {
        let list = at.child("sysctls");
        let here = list.index(i);
        let (here, name) = (here.child("name"), sysctl.name());
        if name.is_empty() {
            errors.push(FieldError::required(&here, ""));
        } else if !formats::is_sysctl(name) {
            let text = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(FieldError::invalid(&here, name, text));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(&here, name));
        }
        seen.push(name);
    }
}

fn dns(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(config) = spec.dns_config() else {
        if spec.dns_policy() == "None" {
            errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
        }
        return;
    };
    let servers = path.child("nameservers");
    if spec.dns_policy() == "None" && config.nameservers().is_empty() {
        errors
            .push(FieldError::required(&servers, "must provide at least one DNS nameserver when `dnsPolicy` is None"));
        return;
    }
    let listed = |items| oarlock_meta::field::Raw(show::items(items));
    if config.nameservers().len() > 3 {
        let shown = listed(config.nameservers().values());
        errors.push(FieldError::invalid(&servers, shown, "must not have more than 3 nameservers"));
    }
    for (i, server) in config.nameservers().iter().enumerate() {
        rules::ip(server, &servers.index(i), errors);
    }
    let searches = path.child("searches");
    if config.searches().len() > 32 {
        errors.push(FieldError::invalid(
            &searches,
            listed(config.searches().values()),
            "must not have more than 32 search paths",
        ));
    }
    if config.searches().iter().map(|s| s.len() + 1).sum::<usize>() > 2049 {
        let text = "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(FieldError::invalid(&searches, listed(config.searches().values()), text));
    }
    for (i, search) in config.searches().iter().enumerate().filter(|(_, s)| *s != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        rules::each(formats::underscore_subdomain(search), search, &searches.index(i), errors);
    }
    for (i, option) in config.options().iter().enumerate() {
        if option.name().is_empty() {
            errors.push(FieldError::required(&path.child("options").index(i), "must not be empty"));
        }
    }
}

/// Validates that fields specific to one operating system are not set for another.
fn operating_system(spec: PodSpec<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(os) = spec.os() else { return };
    let at = path.child("os");
    let context = path.child("securityContext");
    match os.name() {
        "" => errors.push(FieldError::required(&at.child("name"), "")),
        "linux" => {
            if spec.security_context().is_some_and(|c| c.windows_options().is_some()) {
                let text = "windows options cannot be set for a linux pod";
                errors.push(FieldError::forbidden(&context.child("windowsOptions"), text));
            }
        }
        "windows" => {
            let text = "cannot be set for a windows pod";
            let linux = [
                "appArmorProfile",
                "seLinuxOptions",
                "seccompProfile",
                "fsGroup",
                "fsGroupChangePolicy",
                "sysctls",
                "runAsUser",
                "runAsGroup",
                "supplementalGroups",
                "supplementalGroupsPolicy",
                "seLinuxChangePolicy",
            ];
            let node = spec.security_context().and_then(View::node);
            for field in linux.iter().filter(|f| node.is_some_and(|n| n.get(f).is_some())) {
                errors.push(FieldError::forbidden(&context.child(field), text));
            }
            let flags = [
                ("hostUsers", spec.host_users().is_some()),
                ("hostPID", spec.host_pid()),
                ("hostIPC", spec.host_ipc()),
                ("shareProcessNamespace", spec.share_process_namespace().is_some()),
            ];
            for (field, _) in flags.iter().filter(|(_, set)| *set) {
                errors.push(FieldError::forbidden(&path.child(field), text));
            }
        }
        other => errors.push(FieldError::not_supported(&at, other, &["linux", "windows"])),
    }
}

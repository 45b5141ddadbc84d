//! Warnings about pods and templates (upstream `pkg/api/pod/warnings.go`).

use std::collections::BTreeMap;

use oarlock_meta::Path;
use oarlock_meta::quote::quote;
use oarlock_schema::Struct;
use oarlock_schema::views::View;
use oarlock_schema::views::core_v1::{Container, PodSpec, Volume};
use oarlock_schema::views::meta_v1::ObjectMeta;

use crate::rules::Seen;

/// Deprecated node labels, with their new names.
const OLD_NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
];

/// Deprecated or removed volume types.
const OLD_VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Returns the warnings about a pod or template; both have `metadata` and `spec`.
pub fn warnings(node: &Struct, path: &Path<'_>, texts: &mut Vec<String>) {
    let meta = ObjectMeta::from_option(node.get("metadata").and_then(|v| v.as_struct()));
    let spec = PodSpec::from_option(node.get("spec").and_then(|v| v.as_struct()));
    let at = path.child("spec");
    for (key, text) in OLD_NODE_LABELS.iter().filter(|(key, _)| spec.node_selector().get(key).is_some()) {
        texts.push(format!("{}: {text}", at.child("nodeSelector").key(key)));
    }
    for (i, constraint) in spec.topology_spread_constraints().iter().enumerate() {
        if constraint.label_selector().is_none() {
            let list = at.child("topologySpreadConstraints");
            let here = list.index(i);
            texts.push(format!("{}: a null labelSelector results in matching no pod", here.child("labelSelector")));
        }
    }
    annotations(meta, &path.child("metadata").child("annotations"), texts);
    for (i, volume) in spec.volumes().iter().enumerate() {
        volume_warnings(volume, &at.child("volumes").index(i), texts);
    }
    secrets(spec, &at.child("imagePullSecrets"), texts);
    for (field, list) in [("initContainers", spec.init_containers()), ("containers", spec.containers())] {
        for (i, container) in list.iter().enumerate() {
            container_warnings(container, &at.child(field).index(i), texts);
        }
    }
    if let Some(dns) = spec.dns_config() {
        for (i, server) in dns.nameservers().iter().enumerate() {
            crate::rules::address::warn(server, &at.child("dnsConfig").child("nameservers").index(i), texts);
        }
    }
    for (i, alias) in spec.host_aliases().iter().enumerate() {
        crate::rules::address::warn(alias.ip(), &at.child("hostAliases").index(i).child("ip"), texts);
    }
    // The value of a pod is corrected when the pod is stored, so only templates keep an invalid one.
    let template = node.ty().short_name() == "PodTemplateSpec";
    if template && spec.termination_grace_period_seconds().is_some_and(|g| g < 0) {
        let here = at.child("terminationGracePeriodSeconds");
        texts.push(format!("{here}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
}

fn annotations(meta: ObjectMeta<'_>, path: &Path<'_>, texts: &mut Vec<String>) {
    for (key, _) in meta.annotations().iter() {
        let text = if key == "scheduler.alpha.kubernetes.io/critical-pod" {
            "non-functional in v1.16+; use the \"priorityClassName\" field instead"
        } else if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            "non-functional in v1.27+; use the \"seccompProfile\" field instead"
        } else if key.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            "deprecated since v1.30; use the \"appArmorProfile\" field instead"
        } else if key.starts_with("security.alpha.kubernetes.io/sysctls")
            || key.starts_with("security.alpha.kubernetes.io/unsafe-sysctls")
        {
            "non-functional in v1.11+; use the \"sysctls\" field instead"
        } else {
            continue;
        };
        texts.push(format!("{}: {text}", path.key(key)));
    }
}

fn volume_warnings(volume: Volume<'_>, path: &Path<'_>, texts: &mut Vec<String>) {
    for (field, text) in OLD_VOLUMES {
        if volume.node().is_some_and(|n| n.get(field).is_some()) {
            let shown = if *field == "storageos" { "storageOS" } else { field };
            texts.push(format!("{}: {text}", path.child(shown)));
        }
    }
    for source in volume.projected().iter().flat_map(|p| p.sources().iter()) {
        if source.node().is_none_or(Struct::is_empty) {
            texts.push(format!("volume {} (Projected) has no sources provided", quote(volume.name())));
        }
    }
}

fn secrets(spec: PodSpec<'_>, path: &Path<'_>, texts: &mut Vec<String>) {
    let mut seen: Seen<&str> = Seen::new();
    for (i, secret) in spec.image_pull_secrets().iter().enumerate() {
        let (name, at) = (secret.name(), path.index(i));
        if name.is_empty() {
            texts.push(format!("{}: invalid empty name {}", at.child("name"), quote(name)));
        } else if seen.contains(&name) {
            texts.push(format!("{}: duplicate name {}", at.child("name"), quote(name)));
        }
        seen.push(name);
    }
}

fn container_warnings(container: Container<'_>, path: &Path<'_>, texts: &mut Vec<String>) {
    for (list, amounts) in [("limits", container.resources().limits()), ("requests", container.resources().requests())]
    {
        for name in ["memory", "ephemeral-storage"] {
            if let Some(text) = amounts.get(name).filter(|t| t.ends_with(['m', 'u', 'n'])) {
                let resources = path.child("resources");
                let list = resources.child(list);
                texts.push(format!(
                    "{}: fractional byte value {} is invalid, must be an integer",
                    list.key(name),
                    quote(text)
                ));
            }
        }
    }
    let env: Vec<_> = container.env().iter().collect();
    let mut names = Seen::new();
    for (i, var) in env.iter().enumerate() {
        let earlier = names.is_repeat(var.name());
        // A definition that refers to an earlier one is intentional.
        if earlier && !var.value().contains(&format!("$({})", var.name())) {
            let text =
                format!("hides previous definition of {}, which may be dropped when using apply", quote(var.name()));
            texts.push(format!("{}: {text}", path.child("env").index(i)));
        }
    }
    let ports: Vec<_> = container.ports().iter().collect();
    let mut first_of = BTreeMap::new();
    for (i, port) in ports.iter().enumerate() {
        let same = (port.container_port(), port.protocol(), port.host_ip(), port.host_port());
        let first = *first_of.entry(same).or_insert(i);
        if first != i {
            let list = path.child("ports");
            texts.push(format!("{}: duplicate port definition with {}", list.index(i), list.index(first)));
        }
    }
}

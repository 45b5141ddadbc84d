//! Decides which paths of the node a container mounts, and where (`makeMounts` in `pkg/kubelet/kubelet_pods.go`).

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use oarlock_meta::quote::quote;
use oarlock_schema::views::core_v1::{Container, Pod, VolumeMount};

use super::layout::PodDir;
use super::{Mounted, subpath};
use crate::environment::{self, Variables};
use crate::hosts;
use crate::pod_error::{PodError, because};

/// Propagation of later mounts between node and container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    #[default]
    Private,
    HostToContainer,
    Bidirectional,
}

/// One mount of a container; the fields are those of CRI's `Mount`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) container_path: String,
    pub(crate) host_path: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) recursive_read_only: bool,
    pub(crate) propagation: Propagation,
}

/// All mounts of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerMounts {
    pub(crate) mounts: Vec<Mount>,
    /// Path on the node of the container's termination message.
    pub(crate) termination_log: Option<PathBuf>,
}

/// Inputs for a container's `/etc/hosts`.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostsFile {
    /// The pod's host name and domain ([`hosts::host_name`]).
    pub(crate) name: String,
    pub(crate) domain: String,
    /// Addresses of the pod; without one the file is not made.
    pub(crate) ips: Vec<IpAddr>,
    /// Whether the runtime can make mounts recursively read-only.
    pub(crate) recursive_read_only: bool,
}

const HOSTS: &str = "/etc/hosts";

pub(super) fn make(
    (pod, container, attempt): (Pod<'_>, Container<'_>, u32),
    dir: &PodDir,
    mounted: &Mounted,
    variables: &Variables,
    hosts: &HostsFile,
) -> Result<ContainerMounts, PodError> {
    let mut out = ContainerMounts::default();
    if let Some(device) = container.volume_devices().get(0) {
        let name = container.name();
        return Err(PodError::Invalid(format!(
            "cannot find volume {} to pass into container {}",
            quote(device.name()),
            quote(name)
        )));
    }
    for (index, mount) in container.volume_mounts().iter().enumerate() {
        let place = Place { dir, container: container.name(), index };
        out.mounts.push(volume(mount, place, mounted, variables, hosts.recursive_read_only)?);
    }
    let own_hosts = container.volume_mounts().iter().any(|mount| mount.mount_path() == HOSTS);
    if !own_hosts && (pod.spec().host_network() || !hosts.ips.is_empty()) {
        out.mounts.push(file(HOSTS, hosts_file(pod, dir, hosts)?));
    }
    if !container.termination_message_path().is_empty() {
        let log = termination_log(&dir.container(container.name()), attempt)?;
        out.mounts.push(file(container.termination_message_path(), log.clone()));
        out.termination_log = Some(log);
    }
    Ok(out)
}

#[derive(Clone, Copy)]
struct Place<'a> {
    dir: &'a PodDir,
    container: &'a str,
    index: usize,
}

fn volume(
    mount: VolumeMount<'_>,
    place: Place<'_>,
    mounted: &Mounted,
    variables: &Variables,
    recursive: bool,
) -> Result<Mount, PodError> {
    let missing = || {
        let (volume, container) = (quote(mount.name()), quote(place.container));
        PodError::NotReady(format!("cannot find volume {volume} to mount into container {container}"))
    };
    let volume = mounted.get(mount.name()).ok_or_else(missing)?;
    let part = match mount.sub_path_expr() {
        "" => mount.sub_path().to_owned(),
        expression => environment::sub_path(expression, variables)?,
    };
    let propagation = match mount.mount_propagation() {
        None | Some("None") => Propagation::Private,
        Some("HostToContainer") => Propagation::HostToContainer,
        Some("Bidirectional") => Propagation::Bidirectional,
        Some(other) => return Err(PodError::Invalid(format!("invalid MountPropagation mode: {}", quote(other)))),
    };
    let recursive_read_only = recursive_read_only(mount, recursive)
        .map_err(|why| why.within(|why| format!("failed to resolve recursive read-only mode: {why}")))?;
    let host_path = if part.is_empty() {
        volume.path.clone()
    } else {
        let target = place.dir.subpath(&volume.inner_name, place.container, place.index);
        sub_path(mount.name(), place.container, &volume.path, &part, &target)?;
        target
    };
    let container_path = if mount.mount_path().starts_with('/') {
        mount.mount_path().to_owned()
    } else {
        format!("/{}", mount.mount_path())
    };
    let read_only = mount.read_only() || volume.read_only;
    Ok(Mount { container_path, host_path, read_only, recursive_read_only, propagation })
}

/// Binds a sub-path of a volume. Errors go to the log only, since users must not learn about the node's files.
fn sub_path(name: &str, container: &str, volume: &Path, part: &str, target: &Path) -> Result<(), PodError> {
    if part.starts_with('/') {
        return Err(PodError::Invalid(format!("error SubPath `{part}` must not be an absolute path")));
    }
    if part.split('/').any(|part| part == "..") {
        return Err(PodError::Invalid(format!("unable to provision SubPath `{part}`: must not contain '..'")));
    }
    let part = Path::new(part);
    let of = format!("for volumeMount {} of container {}", quote(name), quote(container));
    let hidden = |what: &str, why: PodError| {
        tracing::warn!(container, volume = name, error = %why, "sub-path not made");
        PodError::NotReady(format!("failed to {what} {of}"))
    };
    // This check needs no protection against symlinks: the calls below repeat it safely.
    if !volume.join(part).exists() {
        subpath::make(volume, part).map_err(|why| hidden("create subPath directory", why))?;
    }
    subpath::bind(volume, part, target).map_err(|why| hidden("prepare subPath", why))
}

fn recursive_read_only(mount: VolumeMount<'_>, supported: bool) -> Result<bool, PodError> {
    let mode = mount.recursive_read_only().unwrap_or("Disabled");
    if mode == "Disabled" {
        return Ok(false);
    }
    let wants = format!("volume {} requested recursive read-only mode, but it is not", quote(mount.name()));
    if !mount.read_only() {
        return Err(PodError::Invalid(format!("{wants} read-only")));
    }
    if let Some(propagation) = mount.mount_propagation().filter(|propagation| *propagation != "None") {
        return Err(PodError::Invalid(format!("{wants} compatible with propagation {}", quote(propagation))));
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => Err(PodError::Invalid(format!("{wants} supported by the runtime"))),
        other => Err(PodError::Invalid(format!("unknown recursive read-only mode {}", quote(other)))),
    }
}

fn hosts_file(pod: Pod<'_>, dir: &PodDir, hosts: &HostsFile) -> Result<PathBuf, PodError> {
    let node = if pod.spec().host_network() {
        let file = Path::new(HOSTS);
        let text = std::fs::read(file).map_err(because("open", file))?;
        Some(String::from_utf8_lossy(&text).into_owned())
    } else {
        None
    };
    let text = hosts::hosts_file(pod, &hosts.name, &hosts.domain, &hosts.ips, node.as_deref());
    let path = dir.hosts_file();
    std::fs::create_dir_all(dir.path()).map_err(because("mkdir", dir.path()))?;
    std::fs::write(&path, text).map_err(because("open", &path))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).map_err(because("chmod", &path))?;
    Ok(path)
}

/// Makes an empty file for this start of the container, writable for all its users.
fn termination_log(dir: &Path, attempt: u32) -> Result<PathBuf, PodError> {
    std::fs::create_dir_all(dir).map_err(because("mkdir", dir))?;
    let path = dir.join(attempt.to_string());
    std::fs::write(&path, b"").map_err(because("open", &path))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).map_err(because("chmod", &path))?;
    Ok(path)
}

fn file(container_path: &str, host_path: PathBuf) -> Mount {
    Mount {
        container_path: container_path.to_owned(),
        host_path,
        read_only: false,
        recursive_read_only: false,
        propagation: Propagation::Private,
    }
}

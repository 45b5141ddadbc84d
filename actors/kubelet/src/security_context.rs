//! Computes a container's security context from its own and the pod's (`pkg/securitycontext`, `kuberuntime/security_context*.go`).

use std::path::{Path, PathBuf};

use oarlock_schema::views::core_v1::{Container, Pod, SeccompProfile};

use crate::pod_error::PodError;

/// Security settings of a container; the fields are those of CRI's `LinuxContainerSecurityContext`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecurityContext {
    pub(crate) privileged: bool,
    pub(crate) run_as_user: Option<i64>,
    /// User name from the image, where neither spec nor image has a numeric user.
    pub(crate) run_as_username: String,
    pub(crate) run_as_group: Option<i64>,
    pub(crate) supplemental_groups: Vec<i64>,
    /// Whether the policy for supplemental groups is `Strict` instead of `Merge`, the default.
    pub(crate) strict_groups: bool,
    pub(crate) readonly_rootfs: bool,
    pub(crate) no_new_privs: bool,
    pub(crate) add_capabilities: Vec<String>,
    pub(crate) drop_capabilities: Vec<String>,
    pub(crate) seccomp: Seccomp,
    pub(crate) masked_paths: Vec<String>,
    pub(crate) readonly_paths: Vec<String>,
    /// SELinux user, role, type and level, if any is set.
    pub(crate) selinux: Option<[String; 4]>,
}

/// Seccomp profile: the system calls that a container may make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seccomp {
    #[default]
    Unconfined,
    RuntimeDefault,
    /// The profile in this file.
    Localhost(PathBuf),
}

/// User that an image names, by number or by name, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageUser {
    pub(crate) uid: Option<i64>,
    pub(crate) name: String,
}

/// Paths below `/proc` and `/sys` hidden from containers.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Paths below `/proc` read-only in containers.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Returns a container's security context. Localhost seccomp profiles are files below `profiles`.
///
/// # Errors
/// When the container cannot be configured (`CreateContainerConfigError`); upstream's text.
pub(crate) fn security_context(
    pod: Pod<'_>,
    container: Container<'_>,
    image: &ImageUser,
    profiles: &Path,
) -> Result<SecurityContext, PodError> {
    verify_non_root(pod, container, image)?;
    let (whole, own) = (pod.spec().security_context(), container.security_context());
    let mut out = SecurityContext {
        privileged: own.and_then(|own| own.privileged()).unwrap_or(false),
        run_as_user: run_as_user(pod, container).or(image.uid),
        run_as_group: own.and_then(|own| own.run_as_group()).or(whole.and_then(|whole| whole.run_as_group())),
        readonly_rootfs: own.and_then(|own| own.read_only_root_filesystem()).unwrap_or(false),
        no_new_privs: own.and_then(|own| own.allow_privilege_escalation()) == Some(false),
        ..SecurityContext::default()
    };
    if out.run_as_user.is_none() {
        out.run_as_username.clone_from(&image.name);
    }
    if let Some(capabilities) = own.and_then(|own| own.capabilities()) {
        out.add_capabilities = capabilities.add().iter().map(str::to_owned).collect();
        out.drop_capabilities = capabilities.drop().iter().map(str::to_owned).collect();
    }
    if let Some(whole) = whole {
        out.supplemental_groups = whole.fs_group().into_iter().chain(whole.supplemental_groups().iter()).collect();
        out.strict_groups = match whole.supplemental_groups_policy() {
            None | Some("Merge") => false,
            Some("Strict") => true,
            Some(other) => return Err(PodError::Invalid(format!("unsupported supplementalGroupsPolicy: {other}"))),
        };
    }
    let profile = own.and_then(|own| own.seccomp_profile()).or(whole.and_then(|whole| whole.seccomp_profile()));
    out.seccomp = profile.map_or(Ok(Seccomp::Unconfined), |profile| seccomp(profile, profiles))?;
    let labels = own.and_then(|own| own.se_linux_options()).or(whole.and_then(|whole| whole.se_linux_options()));
    out.selinux = labels.map(|l| [l.user(), l.role(), l.type_(), l.level()].map(str::to_owned));
    if own.and_then(|own| own.proc_mount()) != Some("Unmasked") {
        out.masked_paths = MASKED.iter().map(|path| (*path).to_owned()).chain(throttles()).collect();
        out.readonly_paths = READ_ONLY.iter().map(|path| (*path).to_owned()).collect();
    }
    Ok(out)
}

/// Returns the seccomp profile of a container or a sandbox.
pub(crate) fn seccomp(profile: SeccompProfile<'_>, profiles: &Path) -> Result<Seccomp, PodError> {
    match (profile.type_(), profile.localhost_profile()) {
        ("RuntimeDefault", _) => Ok(Seccomp::RuntimeDefault),
        ("Localhost", Some(file)) if !file.is_empty() => Ok(Seccomp::Localhost(profiles.join(file))),
        ("Localhost", _) => {
            Err(PodError::Invalid("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()))
        }
        _ => Ok(Seccomp::Unconfined),
    }
}

/// Returns the user that the spec requires.
pub(crate) fn run_as_user(pod: Pod<'_>, container: Container<'_>) -> Option<i64> {
    let whole = pod.spec().security_context().and_then(|whole| whole.run_as_user());
    container.security_context().and_then(|own| own.run_as_user()).or(whole)
}

/// Refuses a container that would run as root against `runAsNonRoot` (upstream `verifyRunAsNonRoot`).
fn verify_non_root(pod: Pod<'_>, container: Container<'_>, image: &ImageUser) -> Result<(), PodError> {
    let whole = pod.spec().security_context().and_then(|whole| whole.run_as_non_root());
    if container.security_context().and_then(|own| own.run_as_non_root()).or(whole) != Some(true) {
        return Ok(());
    }
    let meta = pod.metadata();
    let of =
        format!("(pod: \"{}_{}({})\", container: {})", meta.name(), meta.namespace(), meta.uid(), container.name());
    match (run_as_user(pod, container), image.uid) {
        (Some(0), _) => Err(PodError::Invalid(format!("container's runAsUser breaks non-root policy {of}"))),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => {
            Err(PodError::Invalid(format!("container has runAsNonRoot and image will run as root {of}")))
        }
        (None, Some(uid)) if !(0..=i64::from(i32::MAX)).contains(&uid) => Err(PodError::Invalid(format!(
            "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({max})): \
             must be between 0 and {max}, inclusive {of}",
            max = i32::MAX
        ))),
        (None, Some(_)) => Ok(()),
        (None, None) if !image.name.is_empty() => Err(PodError::Invalid(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {of}",
            image.name
        ))),
        (None, None) => Ok(()),
    }
}

/// Returns the paths of the machine's CPU throttle counters, one directory for each processor.
fn throttles() -> impl Iterator<Item = String> {
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let path = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    (0..cpus).map(path).filter(|path| Path::new(path).exists())
}

#[cfg(test)]
mod tests;

//! Plans: how to make a volume.

use std::path::PathBuf;

use oarlock_schema::Str;
use oarlock_schema::views::core_v1::HostPathVolumeSource;

use super::layout::Plugin;
use super::payload::Payload;
use crate::pod_error::PodError;

/// How to make one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// An empty directory for the pod.
    EmptyDir { name: Str, medium: Medium },
    /// Files that project API objects.
    Files { name: Str, plugin: Plugin, files: Payload, medium: Medium },
    /// Files that cannot be computed now; an earlier version stays in use.
    Stale { name: Str, plugin: Plugin, why: PodError },
    /// A path of the node.
    HostPath { name: Str, path: PathBuf, kind: String },
    /// A path of the node from a PersistentVolume with the name `name`.
    Local { name: Str, path: PathBuf, read_only: bool },
}

impl Plan {
    /// Returns the name of the volume's plugin.
    pub(super) const fn plugin_name(&self) -> &'static str {
        match self {
            Self::EmptyDir { .. } => Plugin::EmptyDir.name(),
            Self::Files { plugin, .. } | Self::Stale { plugin, .. } => plugin.name(),
            Self::HostPath { .. } => "kubernetes.io/host-path",
            Self::Local { .. } => Plugin::Local.name(),
        }
    }
}

/// Storage medium of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Disk,
    /// A tmpfs of this many bytes.
    Memory(i64),
    /// Huge pages of this many bytes each.
    HugePages(i64),
}

impl Medium {
    /// Whether the medium is a file system of its own.
    pub(super) const fn is_mounted(&self) -> bool {
        !matches!(self, Self::Disk)
    }
}

/// Returns the plan of a path of the node.
///
/// # Errors
/// When the path contains `..`; upstream's text.
pub(super) fn host_path(name: Str, source: HostPathVolumeSource<'_>) -> Result<Plan, PodError> {
    if source.path().split('/').any(|part| part == "..") {
        return Err(PodError::Invalid(format!("invalid HostPath `{}`: must not contain '..'", source.path())));
    }
    Ok(Plan::HostPath { name, path: source.path().into(), kind: source.type_().unwrap_or("").to_owned() })
}

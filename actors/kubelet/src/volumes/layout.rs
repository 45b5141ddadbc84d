//! Where things of pods are, as upstream lays them out below its root directory.

use std::path::{Path, PathBuf};

/// The directory of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodDir(PathBuf);

/// The plugins that keep something below a pod's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    EmptyDir,
    ConfigMap,
    Secret,
    Projected,
    DownwardApi,
    Local,
}

impl Plugin {
    /// The name with its slash escaped.
    const fn escaped(self) -> &'static str {
        match self {
            Self::EmptyDir => "kubernetes.io~empty-dir",
            Self::ConfigMap => "kubernetes.io~configmap",
            Self::Secret => "kubernetes.io~secret",
            Self::Projected => "kubernetes.io~projected",
            Self::DownwardApi => "kubernetes.io~downward-api",
            Self::Local => "kubernetes.io~local-volume",
        }
    }
}

/// The directory that holds those of all pods.
pub(super) fn pods(root: &Path) -> PathBuf {
    root.join("pods")
}

impl PodDir {
    pub(super) fn new(root: &Path, uid: &str) -> Self {
        Self(pods(root).join(uid))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A volume.
    pub(super) fn volume(&self, plugin: Plugin, name: &str) -> PathBuf {
        self.volumes().join(plugin.escaped()).join(name)
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    /// The directory with the file `ready` of an emptyDir; other plugins wrap one.
    pub(super) fn ready(&self, plugin: Plugin, name: &str) -> PathBuf {
        let name = if plugin == Plugin::EmptyDir { name.to_owned() } else { format!("wrapped_{name}") };
        self.0.join("plugins").join(Plugin::EmptyDir.escaped()).join(name)
    }

    pub(super) fn subpaths(&self) -> PathBuf {
        self.0.join("volume-subpaths")
    }

    /// Where a mounted sub-path is bound.
    pub(super) fn subpath(&self, volume: &str, container: &str, index: usize) -> PathBuf {
        self.subpaths().join(volume).join(container).join(index.to_string())
    }

    /// The directory of a container.
    pub(super) fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    pub(super) fn hosts_file(&self) -> PathBuf {
        self.0.join("etc-hosts")
    }
}

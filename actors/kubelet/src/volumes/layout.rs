//! Paths of pods' files below the root directory, in upstream's layout.

use std::path::{Path, PathBuf};

/// Directory of a pod.
#[derive(Clone, Debug)]
pub(super) struct PodDir(PathBuf);

/// Volume plugins with a directory below a pod's.
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
    /// Returns the plugin's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::EmptyDir => "kubernetes.io/empty-dir",
            Self::ConfigMap => "kubernetes.io/configmap",
            Self::Secret => "kubernetes.io/secret",
            Self::Projected => "kubernetes.io/projected",
            Self::DownwardApi => "kubernetes.io/downward-api",
            Self::Local => "kubernetes.io/local-volume",
        }
    }

    /// Returns the plugin's name with its slash escaped, as directories are named.
    fn escaped(self) -> String {
        self.name().replace('/', "~")
    }
}

/// Returns the directory that contains all pods' directories.
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

    /// Returns the path of a volume.
    pub(super) fn volume(&self, plugin: Plugin, name: &str) -> PathBuf {
        self.volumes().join(plugin.escaped()).join(name)
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    /// Returns the directory of an emptyDir's marker file `ready`; other plugins wrap an emptyDir.
    pub(super) fn ready(&self, plugin: Plugin, name: &str) -> PathBuf {
        let name = if plugin == Plugin::EmptyDir { name.to_owned() } else { format!("wrapped_{name}") };
        self.0.join("plugins").join(Plugin::EmptyDir.escaped()).join(name)
    }

    pub(super) fn subpaths(&self) -> PathBuf {
        self.0.join("volume-subpaths")
    }

    /// Returns the path to which a sub-path is bound.
    pub(super) fn subpath(&self, volume: &str, container: &str, index: usize) -> PathBuf {
        self.subpaths().join(volume).join(container).join(index.to_string())
    }

    /// Returns the directory of a container.
    pub(super) fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    pub(super) fn hosts_file(&self) -> PathBuf {
        self.0.join("etc-hosts")
    }
}

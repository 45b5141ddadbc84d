//! Paths inside `--data-dir`. No other file spells these names.

use std::path::{Path, PathBuf};

/// The data directory of one control plane.
///
/// | path | what |
/// |---|---|
/// | `pki/` | keys and certificates, kubeadm's file names |
/// | `store/` | the embedded store |
/// | `kubeconfig` | kubeconfig of the user, a superuser as in kubeadm's `super-admin.conf` |
/// | `<component>.kubeconfig` | kubeconfig of a component's identity |
/// | `nats/` | credentials of the bus, and nats-server's configuration |
/// | `nodes/<name>/` | data of a kubelet |
/// | `lock` | locked while a process uses the directory |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Default data directory of `up`.
    pub const DEFAULT: &'static str = "./.oarlock";

    /// Creates the paths for the directory `root`, without I/O.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Path of the directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Directory of keys and certificates.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// Directory of the embedded store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The user's kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Kubeconfig file of a component, such as `scheduler.kubeconfig`.
    #[must_use]
    pub fn component_kubeconfig(&self, component: &str) -> PathBuf {
        self.root.join(format!("{component}.kubeconfig"))
    }

    /// Directory of bus credentials and nats-server's configuration.
    #[must_use]
    pub fn nats(&self) -> PathBuf {
        self.root.join("nats")
    }

    /// Data directory of a node's kubelet.
    #[must_use]
    pub fn node(&self, name: &str) -> PathBuf {
        self.root.join("nodes").join(name)
    }

    /// Lock file, locked while a process uses the directory.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_below_the_root() {
        let dir = DataDir::new("/data");
        for path in [
            dir.pki(),
            dir.nats(),
            dir.store(),
            dir.kubeconfig(),
            dir.component_kubeconfig("scheduler"),
            dir.node("a"),
            dir.lock(),
        ] {
            assert!(path.starts_with("/data"), "{}", path.display());
        }
        assert_eq!(dir.component_kubeconfig("scheduler"), Path::new("/data/scheduler.kubeconfig"));
    }
}

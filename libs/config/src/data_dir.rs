//! What lies where in `--data-dir`. No other file spells these names.

use std::path::{Path, PathBuf};

/// The data directory of one control plane.
///
/// | path | what |
/// |---|---|
/// | `pki/` | keys and certificates, kubeadm's file names |
/// | `store/` | the embedded store |
/// | `kubeconfig` | the user's, a superuser as kubeadm's `super-admin.conf` |
/// | `<component>.kubeconfig` | one per component identity |
/// | `nats/` | credentials of the bus, and nats-server's configuration |
/// | `nodes/<name>/` | what a kubelet keeps |
/// | `lock` | held while a process uses the directory |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Where `up` keeps its data unless told otherwise.
    pub const DEFAULT: &'static str = "./.oarlock";

    /// The data directory at `root`. Nothing is read or made.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Keys and certificates.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// The embedded store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The user's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// A component's kubeconfig: `scheduler.kubeconfig` and the like.
    #[must_use]
    pub fn component_kubeconfig(&self, component: &str) -> PathBuf {
        self.root.join(format!("{component}.kubeconfig"))
    }

    /// Credentials of the bus, and the configuration of its servers.
    #[must_use]
    pub fn nats(&self) -> PathBuf {
        self.root.join("nats")
    }

    /// What the kubelet of a node keeps.
    #[must_use]
    pub fn node(&self, name: &str) -> PathBuf {
        self.root.join("nodes").join(name)
    }

    /// Held while a process uses the directory.
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

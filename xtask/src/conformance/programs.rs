//! The programs of a run: upstream's, built from their Go modules, and ours.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::{Args, Maker};
use crate::peer;
use crate::tool::{cargo, root, run as exec, target};

/// Upstream's programs that every run needs: the suite, the programs of nodes, and those of images.
pub(crate) const PROGRAMS: &[&str] = &[
    "agnhost",
    "consume-cpu",
    "containerd",
    "containerd-shim-runc-v2",
    "coredns",
    "ctr",
    "e2e.test",
    "etcd",
    "ginkgo",
    "kube-proxy",
    "kubectl",
    "kubelet",
    "nonewprivs",
    "regression-issue-74839",
    "resource-consumer",
    "sample-apiserver",
];
/// Upstream's control plane.
const CONTROL_PLANE: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The folders of the programs.
pub(crate) struct Programs {
    /// The folder of upstream's.
    pub(crate) bin: PathBuf,
    pub(crate) oarlock: PathBuf,
}

impl Programs {
    /// Returns the path of one of upstream's programs.
    pub(crate) fn tool(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// Builds what is not there.
pub(crate) fn provide(args: &Args) -> anyhow::Result<Programs> {
    let mut names = PROGRAMS.to_vec();
    if args.control_plane == Maker::Upstream {
        names.extend(CONTROL_PLANE);
    }
    let bin = peer::build(&peer::folder(), &names)?;
    let ours = args.control_plane == Maker::Ours || args.nodes == Maker::Ours;
    let oarlock = if ours { oarlock(args.program.as_deref())? } else { PathBuf::new() };
    Ok(Programs { bin, oarlock })
}

fn oarlock(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let program = if let Some(given) = given {
        root().join(given)
    } else {
        exec(cargo().args(["build", "--release"]))?;
        target().join("release/oarlock")
    };
    ensure!(program.is_file(), "{}: there is no such program", program.display());
    Ok(program)
}

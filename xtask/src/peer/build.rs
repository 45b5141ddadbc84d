//! Upstream's programs, built from their Go modules. Nothing built here is ever committed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::tool::{capture, run as exec};

const KUBERNETES: &str = super::KUBERNETES;
const ETCD: &str = "3.6.6";
/// The line before, which is the oldest that may keep our state.
const ETCD_BEFORE: &str = "3.5.21";
/// What our bus is tried with.
const NATS: &str = "2.15.2";
/// The newest whose modules the proxy has.
const K9S: &str = "0.40.5";

/// Under the folder that is built in.
const CACHES: &str = "caches";

/// A program: its name, and the package that builds it.
struct Program {
    name: &'static str,
    package: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver" },
    Program { name: "kube-controller-manager", package: "k8s.io/kubernetes/cmd/kube-controller-manager" },
    Program { name: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler" },
    Program { name: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl" },
    Program { name: "kubelet", package: "k8s.io/kubernetes/cmd/kubelet" },
    Program { name: "etcd", package: "go.etcd.io/etcd/server/v3" },
    Program { name: "etcd-3.5", package: "go.etcd.io/etcd/server/v3" },
    Program { name: "etcdctl", package: "go.etcd.io/etcd/etcdctl/v3" },
    Program { name: "etcdutl", package: "go.etcd.io/etcd/etcdutl/v3" },
    Program { name: "nats-server", package: "github.com/nats-io/nats-server/v2" },
    Program { name: "k9s", package: "github.com/derailed/k9s" },
];

/// Builds those of the named programs that are not in `folder`/bin yet, and returns that folder. Needs Go and its module proxy; the first
/// Kubernetes program takes some minutes, each further one less, until the caches are [forgotten](forget_caches).
///
/// # Errors
/// For a program that is not known here, or does not build.
pub(crate) fn build(folder: &Path, names: &[&str]) -> anyhow::Result<PathBuf> {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin)?;
    for name in names {
        let Some(program) = PROGRAMS.iter().find(|program| program.name == *name) else {
            let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            bail!("{name}: not one of {}", known.join(", "));
        };
        if !bin.join(name).exists() {
            program.build(folder, &bin.join(name)).with_context(|| format!("{name} is not built"))?;
        }
    }
    Ok(bin)
}

/// Removes what Go has kept for further builds: several gigabytes.
///
/// # Errors
/// What the file system says.
pub(crate) fn forget_caches(folder: &Path) -> anyhow::Result<()> {
    let caches = folder.join(CACHES);
    if caches.exists() {
        std::fs::remove_dir_all(&caches).with_context(|| caches.display().to_string())
    } else {
        Ok(())
    }
}

impl Program {
    fn build(&self, folder: &Path, output: &Path) -> anyhow::Result<()> {
        let (module, text, version, flags) = if self.package.starts_with("k8s.io/") {
            (folder.join("kubernetes"), kubernetes_module(folder)?, KUBERNETES, version_flags())
        } else {
            let version = match self.name {
                "etcd-3.5" => ETCD_BEFORE,
                "nats-server" => NATS,
                "k9s" => K9S,
                _ => ETCD,
            };
            (folder.join(self.name), format!("module peer.local/{}\ngo 1.24\n", self.name), version, "-s -w".to_owned())
        };
        std::fs::create_dir_all(&module)?;
        if !module.join("go.mod").exists() {
            std::fs::write(module.join("go.mod"), text)?;
        }
        // With its version: without one, Go would take the newest.
        let wanted = format!("{}@v{version}", self.package);
        let go = |verb: &str| {
            let mut command = go(folder);
            command.arg("-C").arg(&module).arg(verb);
            command
        };
        exec(go("get").arg(&wanted)).context("its modules cannot be fetched")?;
        exec(go("build").args(["-gcflags", "all=-dwarf=false", "-ldflags", &flags, "-o"]).arg(output).arg(self.package))
    }
}

/// Go with caches of our own, so that they can be forgotten.
fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    let caches = folder.join(CACHES);
    command.env("GOCACHE", caches.join("build")).env("GOMODCACHE", caches.join("modules"));
    command.env("GOFLAGS", "-mod=mod -modcacherw -buildvcs=false").env("CGO_ENABLED", "0");
    command
}

/// What a release build says of itself.
fn version_flags() -> String {
    let version = "k8s.io/component-base/version";
    let facts = [
        ("gitVersion", format!("v{KUBERNETES}")),
        ("gitMajor", "1".to_owned()),
        ("gitMinor", "35".to_owned()),
        ("gitTreeState", "clean".to_owned()),
    ];
    facts.iter().fold("-s -w".to_owned(), |flags, (name, value)| format!("{flags} -X {version}.{name}={value}"))
}

/// The module that builds Kubernetes: its staging modules are replaced by directories there, by published versions here.
fn kubernetes_module(folder: &Path) -> anyhow::Result<String> {
    let wanted = format!("k8s.io/kubernetes@v{KUBERNETES}");
    let (ok, text) = capture(go(folder).args(["mod", "download", "-json", &wanted]))?;
    let file = text.lines().find_map(|line| line.trim().strip_prefix("\"GoMod\": \"")?.strip_suffix("\","));
    let Some(file) = file.filter(|_| ok) else { bail!("go mod download {wanted}: {text}") };
    let mut module =
        format!("module peer.local/kubernetes\ngo 1.25.0\nrequire k8s.io/kubernetes v{KUBERNETES}\nreplace (\n");
    let staging = KUBERNETES.trim_start_matches("1.");
    for line in std::fs::read_to_string(file)?.lines().filter(|line| line.contains("=> ./staging")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        writeln!(module, "{name} => {name} v0.{staging}")?;
    }
    Ok(module + ")\n")
}

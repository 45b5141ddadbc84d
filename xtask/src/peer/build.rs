//! Upstream's programs, built from their Go modules. Nothing built here is ever committed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};

use crate::tool::{capture, run as exec};

const KUBERNETES: &str = super::KUBERNETES;

/// Name of the folder with Go's caches, below the folder of a build.
const CACHES: &str = "caches";
/// Name of the folder with the compiled programs, below the folder of a local module.
const MADE: &str = "made";

/// A local Go module that requires one version of an upstream module, to build that module's programs.
struct Module {
    name: &'static str,
    version: &'static str,
    programs: &'static [Program],
}

/// A program: its name here, and the Go package that builds it. A name that ends in [`OF_TESTS`] is a package of tests, which `go test -c` builds.
struct Program(&'static str, &'static str);

/// Ending of the names of programs that run the tests of a package.
const OF_TESTS: &str = ".test";

const MODULES: &[Module] = &[
    Module {
        name: "kubernetes",
        version: KUBERNETES,
        programs: &[
            Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            Program("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
            Program("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            Program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            Program("e2e.test", "k8s.io/kubernetes/test/e2e"),
            // The programs of the images that the end-to-end suite asks for.
            Program("agnhost", "k8s.io/kubernetes/test/images/agnhost"),
            Program("nonewprivs", "k8s.io/kubernetes/test/images/nonewprivs"),
            Program("regression-issue-74839", "k8s.io/kubernetes/test/images/regression-issue-74839"),
            Program("resource-consumer", "k8s.io/kubernetes/test/images/resource-consumer"),
            Program("consume-cpu", "k8s.io/kubernetes/test/images/resource-consumer/consume-cpu"),
            Program("sample-apiserver", "k8s.io/sample-apiserver"),
        ],
    },
    Module {
        name: "etcd",
        version: "3.6.6",
        programs: &[
            Program("etcd", "go.etcd.io/etcd/server/v3"),
            Program("etcdctl", "go.etcd.io/etcd/etcdctl/v3"),
            Program("etcdutl", "go.etcd.io/etcd/etcdutl/v3"),
        ],
    },
    // The line before, which is the oldest that may keep our state.
    Module { name: "etcd-3.5", version: "3.5.21", programs: &[Program("etcd-3.5", "go.etcd.io/etcd/server/v3")] },
    // The server with which the bus is tested.
    Module {
        name: "nats-server",
        version: "2.15.2",
        programs: &[Program("nats-server", "github.com/nats-io/nats-server/v2")],
    },
    // The runner of the end-to-end suite, in the version that the suite is written for.
    Module { name: "ginkgo", version: "2.27.2", programs: &[Program("ginkgo", "github.com/onsi/ginkgo/v2/ginkgo")] },
    Module { name: "coredns", version: "1.15.0", programs: &[Program("coredns", "github.com/coredns/coredns")] },
    Module {
        name: "containerd",
        version: "2.2.1",
        programs: &[
            Program("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
            Program("containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
            Program("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
    },
    // Traces of compose.yaml. Version 2 is in the module of version 1; its page is not.
    Module {
        name: "jaeger",
        version: "1.76.0",
        programs: &[Program("jaeger", "github.com/jaegertracing/jaeger/cmd/jaeger")],
    },
    // Dashboards of compose.yaml where no image of Grafana can be had.
    Module {
        name: "victoria-metrics",
        version: "1.113.0",
        programs: &[Program("victoria-metrics", "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics")],
    },
    // Makes metrics of the objects that it watches.
    Module {
        name: "kube-state-metrics",
        version: "2.18.0",
        programs: &[Program("kube-state-metrics", "k8s.io/kube-state-metrics/v2")],
    },
    Module {
        name: "konnectivity",
        version: "0.34.0",
        programs: &[
            Program("konnectivity-server", "sigs.k8s.io/apiserver-network-proxy/cmd/server"),
            Program("konnectivity-agent", "sigs.k8s.io/apiserver-network-proxy/cmd/agent"),
        ],
    },
    // What installs the chart `helm/oarlock`.
    Module { name: "helm", version: "3.22.0", programs: &[Program("helm", "helm.sh/helm/v3/cmd/helm")] },
    // The newest whose modules the proxy has.
    Module { name: "k9s", version: "0.40.5", programs: &[Program("k9s", "github.com/derailed/k9s")] },
];

/// Modules that their own `go.mod` replaces by a folder of theirs, by the name of the module that is built. They are published with the same version.
const REPLACED: &[(&str, &str)] = &[("konnectivity", "sigs.k8s.io/apiserver-network-proxy/konnectivity-client")];

/// Modules whose dependencies are not all in Go's database of checksums. Their own `go.sum`, which the database vouches for, has the checksums.
const WITH_SUMS: &[(&str, &str)] = &[("victoria-metrics", "github.com/VictoriaMetrics/VictoriaMetrics")];

/// Builds those of the named programs that are not [kept](super::kept) yet in the version that is wanted now, links to them in `folder`/bin, and returns that folder. Needs Go and its module proxy; takes some minutes
/// for Kubernetes' programs, fewer when one was built before and the caches are not [forgotten](forget_caches) yet.
///
/// # Errors
/// For a program that is not known here, or does not build.
pub(crate) fn build(folder: &Path, names: &[&str]) -> anyhow::Result<PathBuf> {
    let known: Vec<&str> = MODULES.iter().flat_map(|module| module.programs).map(|program| program.0).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        bail!("{name}: not one of {}", known.join(", "));
    }
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin)?;
    // Side by side: what one of them downloads and links leaves the others room to compile.
    let built: Vec<anyhow::Result<()>> = std::thread::scope(|scope| {
        let build = |module: &'static Module| {
            let wanted = module.programs.iter().filter(|program| names.contains(&program.0));
            let wanted: Vec<&Program> = wanted.collect();
            let (folder, bin) = (&folder, &bin);
            scope.spawn(move || module.provide(folder, &wanted, bin))
        };
        let threads: Vec<_> = MODULES.iter().map(build).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a build panicked"))?).collect()
    });
    built.into_iter().collect::<anyhow::Result<()>>()?;
    Ok(bin)
}

/// Removes Go's build caches: several gigabytes.
///
/// # Errors
/// An error of the file system.
pub(crate) fn forget_caches(folder: &Path) -> anyhow::Result<()> {
    let caches = folder.join(CACHES);
    if caches.exists() {
        std::fs::remove_dir_all(&caches).with_context(|| caches.display().to_string())
    } else {
        Ok(())
    }
}

impl Module {
    fn folder(&self) -> PathBuf {
        super::kept().join(format!("{}-{}", self.name, self.version))
    }

    /// Returns the path at which Go puts a program: Go names the program after its package, without the major version.
    fn made(&self, program @ Program(name, package): &Program) -> PathBuf {
        if program.is_of_tests() {
            return self.folder().join(MADE).join(name);
        }
        self.folder().join(MADE).join(last_part(package))
    }

    /// Builds the programs that are not kept, and gives all of them their names in `bin`.
    fn provide(&self, folder: &Path, programs: &[&Program], bin: &Path) -> anyhow::Result<()> {
        let is_linked = |program: &&&Program| {
            let made = self.made(program);
            made.exists() && std::fs::read_link(bin.join(program.0)).is_ok_and(|points| points == made)
        };
        if programs.iter().all(|program| is_linked(&program)) {
            return Ok(());
        }
        std::fs::create_dir_all(self.folder())?;
        let missing = || programs.iter().copied().filter(|program| !self.made(program).exists()).collect::<Vec<_>>();
        if !missing().is_empty() {
            // Another checkout may be building the same; what it has built is here when the lock is free.
            let lock = std::fs::File::create(self.folder().join("lock"))?;
            lock.lock().with_context(|| format!("the lock of {}", self.folder().display()))?;
            let missing = missing();
            if !missing.is_empty() {
                self.build(folder, &missing)?;
            }
        }
        // A link gets its name when it is whole; another process may be doing the same.
        for program in programs {
            let place = bin.join(program.0);
            let new = bin.join(format!(".{}-{}", program.0, std::process::id()));
            std::os::unix::fs::symlink(self.made(program), &new).with_context(|| new.display().to_string())?;
            std::fs::rename(new, &place).with_context(|| place.display().to_string())?;
        }
        Ok(())
    }

    fn build(&self, folder: &Path, programs: &[&Program]) -> anyhow::Result<()> {
        let names: Vec<&str> = programs.iter().map(|program| program.0).collect();
        let failed = || format!("not built: {}", names.join(", "));
        let module = self.folder();
        let (text, flags) = if self.version == KUBERNETES {
            (kubernetes_module(folder).with_context(failed)?, version_flags())
        } else {
            (format!("module peer.local/{}\ngo 1.24\n", self.name), "-s -w".to_owned())
        };
        let (made, new) = (module.join(MADE), module.join("new"));
        std::fs::create_dir_all(&made)?;
        if !module.join("go.mod").exists() {
            std::fs::write(module.join("go.mod"), text)?;
        }
        if let Some((_, source)) = WITH_SUMS.iter().find(|(name, _)| *name == self.name) {
            let source = download(folder, &format!("{source}@v{}", self.version), "Dir").with_context(failed)?;
            let sums = std::fs::read(Path::new(&source).join("go.sum")).context(source).with_context(failed)?;
            std::fs::write(module.join("go.sum"), sums)?;
        }
        let go = |verb: &str| {
            let mut command = go(folder);
            command.arg("-C").arg(&module).arg(verb);
            command
        };
        // The version is given, because Go would otherwise take the newest.
        let wanted = programs.iter().map(|program| format!("{}@v{}", program.1, program.version(self)));
        let replaced = REPLACED.iter().filter(|(name, _)| *name == self.name);
        let replaced = replaced.map(|(_, module)| format!("{module}@v{}", self.version));
        exec(go("get").args(wanted.chain(replaced))).context("its modules cannot be fetched").with_context(failed)?;
        let (tests, plain): (Vec<&Program>, Vec<&Program>) =
            programs.iter().copied().partition(|program| program.is_of_tests());
        let flags = ["-gcflags", "all=-dwarf=false", "-ldflags", &flags, "-o"];
        if !plain.is_empty() {
            let packages = plain.iter().map(|program| program.1);
            exec(go("build").args(flags).arg(new.join("")).args(packages)).with_context(failed)?;
        }
        for Program(name, package) in tests {
            exec(go("test").arg("-c").args(flags).arg(new.join(name)).arg(package)).with_context(failed)?;
        }
        // Only what is whole may be found.
        for program in programs {
            let place = self.made(program);
            let made = new.join(place.file_name().with_context(failed)?);
            std::fs::rename(&made, &place).with_context(|| made.display().to_string())?;
        }
        Ok(())
    }
}

impl Program {
    fn is_of_tests(&self) -> bool {
        self.0.ends_with(OF_TESTS)
    }

    /// The version of the module that the package is in: Kubernetes' staging modules have one of their own.
    fn version(&self, module: &Module) -> String {
        if module.version == KUBERNETES && !self.1.starts_with("k8s.io/kubernetes/") {
            staging()
        } else {
            module.version.to_owned()
        }
    }
}

/// Returns the last part of a package's path that is no major version (`v3`).
fn last_part(package: &str) -> &str {
    let is_version = |part: &&str| {
        part.strip_prefix('v').is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
    };
    package.rsplit('/').find(|part| !is_version(part)).unwrap_or(package)
}

/// Returns the version of Kubernetes' staging modules.
fn staging() -> String {
    format!("0.{}", KUBERNETES.trim_start_matches("1."))
}

/// Returns the folder of Kubernetes' source, as Go has downloaded it.
///
/// # Errors
/// When its module cannot be downloaded.
pub(crate) fn kubernetes_source(folder: &Path) -> anyhow::Result<PathBuf> {
    download(folder, &format!("k8s.io/kubernetes@v{KUBERNETES}"), "Dir").map(PathBuf::from)
}

/// Returns a command that runs Go with caches of its own, which can be removed afterwards. Garbage collection is off: compilers end before memory is short,
/// and a quarter of their time is saved.
fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    let caches = folder.join(CACHES);
    command.env("GOGC", "off").env("GOMEMLIMIT", "2GiB");
    command.env("GOCACHE", caches.join("build")).env("GOMODCACHE", caches.join("modules"));
    command.env("GOFLAGS", "-mod=mod -modcacherw -buildvcs=false").env("CGO_ENABLED", "0");
    command
}

/// Returns the linker flags that set the version of a release build.
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

/// Returns the `go.mod` of the module that builds Kubernetes: its staging modules are replaced by directories there, by published versions here.
fn kubernetes_module(folder: &Path) -> anyhow::Result<String> {
    let file = download(folder, &format!("k8s.io/kubernetes@v{KUBERNETES}"), "GoMod")?;
    let mut module =
        format!("module peer.local/kubernetes\ngo 1.25.0\nrequire k8s.io/kubernetes v{KUBERNETES}\nreplace (\n");
    let staging = staging();
    for line in std::fs::read_to_string(file)?.lines().filter(|line| line.contains("=> ./staging")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        writeln!(module, "{name} => {name} v{staging}")?;
    }
    Ok(module + ")\n")
}

/// Downloads a module, `PATH@VERSION`; returns a field of Go's answer.
fn download(folder: &Path, wanted: &str, key: &str) -> anyhow::Result<String> {
    let (ok, text) = capture(go(folder).args(["mod", "download", "-json", wanted]))?;
    let begins = format!("\"{key}\": \"");
    let said = text.lines().find_map(|line| line.trim().strip_prefix(begins.as_str())?.strip_suffix("\","));
    let Some(said) = said.filter(|_| ok) else { bail!("go mod download {wanted}: {text}") };
    Ok(said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::last_part;

    #[test]
    fn a_program_is_called_by_its_package_without_the_major_version() {
        assert_eq!(last_part("go.etcd.io/etcd/server/v3"), "server");
        assert_eq!(last_part("github.com/onsi/ginkgo/v2/ginkgo"), "ginkgo");
        assert_eq!(last_part("x/cmd/containerd-shim-runc-v2"), "containerd-shim-runc-v2");
        assert_eq!(last_part("x/images/regression-issue-74839"), "regression-issue-74839");
    }
}

//! Upstream's own programs, which `cargo xtask peer` builds and runs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oarlock_config::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::{Http, Who};
use crate::{Kubectl, binary};

/// Builds some of upstream's programs and returns the folder that holds them.
///
/// # Errors
/// Why they cannot be built here: a machine without Go, or without the modules and a way to them.
///
/// # Panics
/// When they do not compile.
pub fn programs(names: &[&str]) -> Result<PathBuf, String> {
    binary::go().ok_or("no go")?;
    let output = xtask().arg("build").args(names).output().map_err(|error| error.to_string())?;
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if why.contains("cannot be fetched") {
        return Err(format!("no Go modules: {why}"));
    }
    assert!(output.status.success(), "{names:?}: {why}");
    said.lines().last().map(PathBuf::from).ok_or_else(|| "it printed no folder".to_owned())
}

/// Names the built `xtask`: whoever runs many tests at once spares them the wait for cargo's lock.
const XTASK: &str = "OARLOCK_XTASK";

fn xtask() -> Command {
    let mut command = match std::env::var_os(XTASK) {
        Some(program) => Command::new(program),
        None => {
            let mut cargo = binary::cargo();
            cargo.arg("xtask");
            cargo
        }
    };
    command.arg("peer");
    command
}

/// Upstream's etcd and kube-apiserver, with more of its parts. They end with this value.
#[derive(Debug)]
pub struct Peer {
    keeper: Child,
    folder: TempDir,
    /// What the keeper said when it was ready.
    said: serde_json::Value,
}

impl Peer {
    /// Starts them with these further parts and waits until they are ready; their programs must be built.
    ///
    /// # Panics
    /// When they do not start.
    #[must_use]
    pub fn up(with: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("oarlock-peer-").tempdir().expect("a temporary directory");
        let mut command = xtask();
        command.args(["up", "--dir"]).arg(folder.path());
        if !with.is_empty() {
            command.args(["--with", &with.join(",")]);
        }
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cargo xtask starts");
        let said = BufReader::new(keeper.stdout.take().expect("a pipe"));
        let ready = said.lines().map_while(Result::ok).find(|line| line.starts_with('{'));
        let ready = ready.expect("upstream did not start: see what cargo xtask peer up said");
        let said = serde_json::from_str(&ready).expect("JSON");
        Self { keeper, folder, said }
    }

    /// State, keys (`pki/ca.crt`, `pki/ca.key`), kubeconfigs and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig of upstream's part of this name, whether it runs or not.
    #[must_use]
    pub fn component_kubeconfig(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.kubeconfig"))
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// kubectl as the administrator.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig())
    }

    /// A raw HTTP client of its API server, as the administrator.
    ///
    /// # Panics
    /// When the kubeconfig cannot be read.
    #[must_use]
    pub fn http(&self) -> Http {
        let endpoint = Kubeconfig::read(&self.kubeconfig()).and_then(|file| file.resolve(None));
        Http::new(&endpoint.expect("the kubeconfig"), Who::Admin)
    }

    /// The URL of its etcd.
    ///
    /// # Panics
    /// When the keeper did not say.
    #[must_use]
    pub fn etcd(&self) -> String {
        self.said["etcd"].as_str().expect("a URL").to_owned()
    }

    /// Ends one of its programs.
    ///
    /// # Panics
    /// When it is none of them.
    pub fn end(&self, program: &str) {
        let pid = self.said["pids"][program].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("one of its programs"), Signal::TERM).expect("it takes the signal");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its keeper ends everything when its standard input ends.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

//! [`Peer`]: upstream's own programs, built and run by `cargo xtask peer`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oarlock_config::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::{Http, Who};
use crate::{Kubectl, binary};

/// Builds some of upstream's programs and returns the folder with the executables.
///
/// # Errors
/// Why the programs cannot be built here: Go is missing, or its modules are and cannot be downloaded.
///
/// # Panics
/// When the programs do not compile.
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

/// Environment variable that names the built `xtask`.
const XTASK_VARIABLE: &str = "OARLOCK_XTASK";

/// Returns a command of `xtask peer`: of the program that `OARLOCK_XTASK` names or that lies built beside the tests, because cargo waits for its lock and
/// may have to compile. Only without either does cargo run it.
fn xtask() -> Command {
    let program = std::env::var_os(XTASK_VARIABLE).map(PathBuf::from);
    let mut command = match program.or_else(|| binary::built("xtask").ok()) {
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

/// Upstream's etcd and kube-apiserver, with further components. Dropping the value ends them.
#[derive(Debug)]
pub struct Peer {
    keeper: Child,
    folder: TempDir,
    /// The status line of `xtask peer` when everything was ready.
    said: serde_json::Value,
}

impl Peer {
    /// Starts the programs with these further components and waits until they are ready; the programs must be built.
    ///
    /// # Panics
    /// When the programs do not start.
    #[must_use]
    pub fn up(with: &[&str]) -> Self {
        Self::up_with(with, &[])
    }

    /// Starts the programs as [`Peer::up`] does, with further flags of kube-apiserver, `NAME=VALUE` each.
    ///
    /// # Panics
    /// When the programs do not start.
    #[must_use]
    pub fn up_with(with: &[&str], flags: &[String]) -> Self {
        let folder = tempfile::Builder::new().prefix("oarlock-peer-").tempdir().expect("a temporary directory");
        let mut command = xtask();
        command.args(["up", "--dir"]).arg(folder.path());
        if !with.is_empty() {
            command.args(["--with", &with.join(",")]);
        }
        command.args(flags.iter().map(|flag| format!("--api-server-flag={flag}")));
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cargo xtask starts");
        let said = BufReader::new(keeper.stdout.take().expect("a pipe"));
        let ready = said.lines().map_while(Result::ok).find(|line| line.starts_with('{'));
        let ready = ready.expect("upstream did not start: see what cargo xtask peer up said");
        let said = serde_json::from_str(&ready).expect("JSON");
        Self { keeper, folder, said }
    }

    /// Returns the directory with state, keys (`pki/ca.crt`, `pki/ca.key`), kubeconfigs and logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the kubeconfig of the upstream component of this name, whether or not the component runs.
    #[must_use]
    pub fn component_kubeconfig(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.kubeconfig"))
    }

    /// Returns the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// Returns a kubectl with the administrator's kubeconfig.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig())
    }

    /// Returns a raw HTTP client of the API server, as the administrator.
    ///
    /// # Panics
    /// When the kubeconfig cannot be read.
    #[must_use]
    pub fn http(&self) -> Http {
        let endpoint = Kubeconfig::read(&self.kubeconfig()).and_then(|file| file.resolve(None));
        Http::new(&endpoint.expect("the kubeconfig"), Who::Admin)
    }

    /// Returns the URL of etcd.
    ///
    /// # Panics
    /// When the status line does not name the URL.
    #[must_use]
    pub fn etcd(&self) -> String {
        self.said["etcd"].as_str().expect("a URL").to_owned()
    }

    /// Ends one of the programs.
    ///
    /// # Panics
    /// When no program has this name.
    pub fn end(&self, program: &str) {
        let pid = self.said["pids"][program].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("one of its programs"), Signal::TERM).expect("it takes the signal");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // `xtask peer` ends all programs when its standard input is closed.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

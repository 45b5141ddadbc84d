//! [`Cluster`]: a running `oarlock up`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oarlock_config::{DataDir, Kubeconfig};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::http::{Http, Who};
use crate::wait::eventually;
use crate::{Kubectl, binary, process};

/// Environment variable with flags for every [`Cluster::up`], so that a suite can run with other settings.
pub const FLAGS_VARIABLE: &str = "OARLOCK_TEST_FLAGS";

/// One `oarlock up` with a data directory of its own. Dropping the value ends the process and, when the test is failing, prints its log.
#[derive(Debug)]
pub struct Cluster {
    dir: TempDir,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    /// `None` while the process is stopped.
    child: Option<Child>,
}

impl Cluster {
    /// Starts `oarlock up --data-dir <temporary> <flags>`, with `--port 0` unless a flag sets the port, and waits until the server is ready.
    ///
    /// # Panics
    /// When the program is missing, exits, or does not become ready.
    #[must_use]
    pub fn up(flags: &[&str]) -> Self {
        Self::with_variables(&[], flags)
    }

    /// As [`Cluster::up`], with these environment variables.
    ///
    /// # Panics
    /// As [`Cluster::up`].
    #[must_use]
    pub fn with_variables(variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let everywhere = std::env::var(FLAGS_VARIABLE).unwrap_or_default();
        let flags: Vec<&str> = flags.iter().copied().chain(everywhere.split_whitespace()).collect();
        let mut cluster = Self::stopped(&flags);
        cluster.variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        cluster.start();
        cluster
    }

    /// Prepares a process with these flags.
    fn stopped(flags: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("oarlock-test-").tempdir().expect("a temporary directory");
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { dir, flags, variables: Vec::new(), child: None }
    }

    /// As [`Cluster::up`], with a data directory that already holds `file` with `content`, as left by another process.
    ///
    /// # Panics
    /// As [`Cluster::up`], and when the file cannot be written.
    #[must_use]
    pub fn over(file: &Path, content: &[u8], flags: &[&str]) -> Self {
        let mut cluster = Self::stopped(flags);
        let path = cluster.data_dir().root().join(file);
        std::fs::create_dir_all(path.parent().expect("its folder")).expect("a folder");
        std::fs::write(&path, content).expect("the file");
        cluster.start();
        cluster
    }

    /// Starts another API server with the same authorities and token key and with `flags`, as an operator adds one.
    ///
    /// # Panics
    /// As [`Cluster::up`].
    #[must_use]
    pub fn replica(&self, flags: &[&str]) -> Self {
        let mut replica = Self::stopped(&[flags, &["--disable", "scheduler,controller-manager,kubelet"]].concat());
        let pki = replica.data_dir().pki();
        std::fs::create_dir_all(&pki).expect("a directory");
        for name in ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub"] {
            std::fs::copy(self.data_dir().pki().join(name), pki.join(name)).expect("a key");
        }
        replica.start();
        replica
    }

    /// Starts an API server alone, in memory.
    #[must_use]
    pub fn api_only() -> Self {
        Self::up(&["--ephemeral", "--disable", "scheduler,controller-manager,kubelet"])
    }

    /// Starts the process with the same data directory and waits until the server is ready.
    ///
    /// # Panics
    /// As [`Cluster::up`], and when the process is already running.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        // Each process writes a new file, so the awaited line cannot be an old one.
        let said = File::create(self.said()).expect("a file for its output");
        let log = File::options().create(true).append(true).open(self.log()).expect("a file for its log");
        let mut command = Command::new(binary::oarlock());
        command.args(["up", "--data-dir"]).arg(self.data_dir().root()).args(&self.flags);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if !self.flags.iter().any(|flag| flag == "--port") {
            command.args(["--port", "0"]);
        }
        command.stdin(Stdio::null()).stdout(said).stderr(log);
        self.child = Some(command.spawn().expect("oarlock starts"));
        eventually("oarlock up prints its kubeconfig", || {
            let said = std::fs::read_to_string(self.said()).unwrap_or_default();
            if said.lines().any(|line| line.starts_with("export KUBECONFIG=")) {
                return Ok(());
            }
            let child = self.child.as_mut().expect("just started");
            if let Some(status) = child.try_wait().expect("its state") {
                self.child = None;
                panic!("oarlock up ended with {status}\n{said}\n{}", self.log_tail());
            }
            Err(said)
        });
        let http = self.http(Who::Anonymous);
        eventually("readyz says ok", || match http.try_get("/readyz") {
            Ok(answer) if answer.code == 200 => Ok(()),
            Ok(answer) => Err(answer.to_string()),
            Err(error) => Err(error.to_string()),
        });
    }

    /// Sets the flags of later starts, together with the current port.
    ///
    /// # Panics
    /// When the kubeconfig names no port.
    pub fn from_now_on(&mut self, flags: &[&str]) {
        let http = self.http(Who::Anonymous);
        let port = http.address().rsplit(':').next().expect("a port");
        self.flags = flags.iter().chain(&["--port", port]).map(|flag| (*flag).to_owned()).collect();
    }

    /// Ends the process with SIGKILL, like a power failure, and waits for its end.
    ///
    /// # Panics
    /// When the process is not running.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
    }

    /// Sends the process a signal.
    ///
    /// # Panics
    /// When the process is not running.
    pub fn signal(&self, signal: Signal) {
        process::send(self.child.as_ref().expect("it runs"), signal).expect("it takes the signal");
    }

    /// Ends the process with SIGTERM and waits; returns the exit code, or `None` when the process had to be killed.
    ///
    /// # Panics
    /// When the process is not running.
    pub fn stop(&mut self) -> Option<i32> {
        process::end(&mut self.child.take().expect("it runs"))
    }

    /// Waits until the process ends by itself; returns the exit code, unless a signal ended the process.
    ///
    /// # Panics
    /// When the process is not running, or does not end in time.
    pub fn wait_for_end(&mut self) -> Option<i32> {
        process::wait_for_end(&mut self.child.take().expect("it runs"))
    }

    /// Returns the process id.
    ///
    /// # Panics
    /// When the process is not running.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Whether the process is running.
    ///
    /// # Panics
    /// When the process's state cannot be read.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("its state").is_none())
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data_dir(&self) -> DataDir {
        DataDir::new(self.dir.path().join("data"))
    }

    /// Returns the path of the user's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().kubeconfig()
    }

    /// Returns a kubectl with the administrator's kubeconfig.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig())
    }

    /// Returns a raw HTTP client.
    ///
    /// # Panics
    /// When the kubeconfig cannot be read.
    #[must_use]
    pub fn http(&self, who: Who) -> Http {
        let endpoint = Kubeconfig::read(&self.kubeconfig()).and_then(|file| file.resolve(None));
        Http::new(&endpoint.expect("the kubeconfig"), who)
    }

    /// Writes a file, such as a manifest, to a directory that is deleted with the cluster.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).expect("a temporary file");
        path
    }

    /// Returns the whole log.
    #[must_use]
    pub fn said_in_log(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        process::tail(&self.said_in_log())
    }

    fn said(&self) -> PathBuf {
        self.dir.path().join("stdout")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of oarlock up\n{}\n---", self.log_tail());
        }
        if self.child.is_some() {
            self.stop();
        }
    }
}

/// Reads a text file.
///
/// # Panics
/// When the file cannot be read.
#[must_use]
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

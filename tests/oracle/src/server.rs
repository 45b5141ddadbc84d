//! A running `oarlock`: the built executable on a free port, without the parts that were absent in the recording.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// A running server, which ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts `binary` and waits until the server is ready.
    ///
    /// # Errors
    /// When the server ends before it is ready.
    pub fn start(binary: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut child = Command::new(binary)
            .args(["up", "--ephemeral", "--port", "0", "--disable", "scheduler,controller-manager,kubelet"])
            .arg("--data-dir")
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| binary.display().to_string())?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        for line in &mut lines {
            if let Some(kubeconfig) = line?.strip_prefix("export KUBECONFIG=") {
                return Ok(Self { child, kubeconfig: kubeconfig.into(), folder });
            }
        }
        bail!("{} ended before it was ready: {:?}", binary.display(), child.wait()?);
    }

    /// Returns the folder of the server's files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The workspace's `oarlock`, built now unless `OARLOCK_BIN` names one.
///
/// # Errors
/// When the executable does not build.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(binary) = std::env::var_os("OARLOCK_BIN") {
        return Ok(binary.into());
    }
    let built = oarlock_testkit::cargo()
        .args(["build", "--quiet", "-p", "oarlock", "--message-format", "json-render-diagnostics"])
        .current_dir(crate::home())
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        bail!("oarlock does not build");
    }
    let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<serde_json::Value>();
    let executables = messages.filter_map(|message| message.ok()?.get("executable")?.as_str().map(PathBuf::from));
    executables.last().context("cargo names no executable")
}

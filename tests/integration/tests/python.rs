//! Clients of the Python world, from PyPI: the official one (typed, dynamic, watching), and Helm's own SDK with a chart that has a hook.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use oarlock_testkit::Cluster;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// A Python with the clients, made once for all tests; or why there is none.
fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PYTHON.get_or_init(environment) {
        Ok(python) => Some(python),
        // The skip is printed and listed in docs/operations/tests.md.
        Err(why) => {
            oarlock_testkit::skipped!("{why}: no Python client was tried");
            None
        }
    }
}

/// Makes a virtual environment beside the test's executable and installs what requirements.txt names.
fn environment() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let python = folder.join("bin/python");
    // Tests may run in several processes; one of them makes the folder.
    let lock = std::fs::File::create(folder.with_extension("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
    run(Command::new(&python).args(install).current_dir(SOURCES))?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    output.status.success().then_some(()).ok_or_else(said)
}

/// Runs a script against a cluster of its own; its output must end with "ok".
fn script(words: &[&str]) {
    let Some(python) = python() else { return };
    let cluster = Cluster::up(&["--ephemeral"]);
    let ran = Command::new(python)
        .args(words)
        .current_dir(SOURCES)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("HELM_CACHE_HOME", cluster.data_dir().root().join("helm"))
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("ok\n"), "{said}");
}

#[test]
fn the_official_client() {
    script(&["client.py"]);
}

#[test]
fn helm() {
    script(&["release.py", "chart"]);
}

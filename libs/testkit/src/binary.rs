//! Finds the programs that tests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use parking_lot::RwLock;

/// Names another executable than the built one; it is then taken as it is.
const OVERRIDE: &str = "OARLOCK_BIN";
const BUILD: &str = "cargo build -p oarlock";

/// The executable that [`replace_oarlock`] has set.
static REPLACEMENT: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Starts every later `oarlock` of this process from `executable`, or with `None` from the built one again, as an upgrade of a host does. A test that calls
/// this function has to be the only one in its process.
pub fn replace_oarlock(executable: Option<PathBuf>) {
    *REPLACEMENT.write() = executable;
}

/// The executable that [`replace_oarlock`] names, else that of `OARLOCK_BIN`, else the built `oarlock`, which lies beside the directory of the running test's executable.
///
/// # Panics
/// When it is missing or older than a source it was built from (cargo's dep-info beside it lists them): a test must not judge
/// yesterday's program. The text names the command that builds it.
#[must_use]
pub fn oarlock() -> PathBuf {
    if let Some(path) = REPLACEMENT.read().clone().or_else(|| std::env::var_os(OVERRIDE).map(PathBuf::from)) {
        return path;
    }
    let own = std::env::current_exe().expect("the test's own path");
    let dir = own.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
    let binary = dir.join("oarlock");
    let Some(built) = modified(&binary) else {
        panic!("{} is not there: run `{BUILD}` first, as `cargo xtask ci` does", binary.display());
    };
    let facts = std::fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let sources = facts.split_once(": ").map_or("", |(_, sources)| sources);
    for source in sources.split_whitespace() {
        if modified(Path::new(source)).is_some_and(|changed| changed > built) {
            panic!("{} is older than {source}: run `{BUILD}`, or name an executable in {OVERRIDE}", binary.display());
        }
    }
    binary
}

/// Parts that have a server of their own, at a port that upstream gives them.
const CREW: [&str; 4] = ["admission", "cloud-controller-manager", "controller-manager", "scheduler"];

/// A subcommand, beside others of its kind on this machine: one of the crew has no server of its own then.
///
/// # Panics
/// As [`oarlock`].
#[must_use]
pub fn part(name: &str) -> Command {
    let mut command = Command::new(oarlock());
    command.arg(name);
    if CREW.contains(&name) {
        command.args(["--secure-port", "0"]);
    }
    command
}

/// `cargo`, as a user calls it: without what the one that runs this process tells it of its package. A build script that looks at that would run
/// again, and everything above it would be built again (ring's does).
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// A built example of the package whose test is running.
///
/// # Panics
/// When it is missing: `cargo test` builds examples unless it is told what to build.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    let dir = own.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
    let program = dir.join("examples").join(name);
    assert!(program.is_file(), "{} is not there: run `cargo build --examples` first", program.display());
    program
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|facts| facts.modified()).ok()
}

/// The machine's kubectl.
///
/// # Panics
/// When there is none: it is the judge of most of what is tested here, so its absence is no reason to skip.
#[must_use]
pub fn kubectl() -> PathBuf {
    on_path("kubectl").expect("kubectl is not on the PATH: run tests/install-kubectl")
}

/// The machine's Go, if it has one.
#[must_use]
pub fn go() -> Option<PathBuf> {
    on_path("go")
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

//! Finds and prepares the programs that tests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use parking_lot::RwLock;

/// Environment variable that names another executable than the built one, used without checks.
const OVERRIDE_VARIABLE: &str = "OARLOCK_BIN";
const BUILD_COMMAND: &str = "cargo build -p oarlock";

/// The executable that [`replace_oarlock`] has set.
static REPLACEMENT: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Makes every later start of `oarlock` in this process use `executable`, or the built one again with `None`, as a host's upgrade does. A test that calls this function must
/// be alone in its process.
pub fn replace_oarlock(executable: Option<PathBuf>) {
    *REPLACEMENT.write() = executable;
}

/// Returns the executable set by [`replace_oarlock`], else that of `OARLOCK_BIN`, else the built `oarlock`, in the parent directory of the running test's executable.
///
/// # Panics
/// When the executable is missing or older than one of its sources (cargo's dep-info file lists them): a test must not run an outdated program. The message names the command
/// that builds it.
#[must_use]
pub fn oarlock() -> PathBuf {
    if let Some(path) = REPLACEMENT.read().clone().or_else(|| std::env::var_os(OVERRIDE_VARIABLE).map(PathBuf::from)) {
        return path;
    }
    match built("oarlock") {
        Ok(binary) => binary,
        Err(NotBuilt::Missing(binary)) => {
            panic!("{} is not there: run `{BUILD_COMMAND}` first, as `cargo xtask ci` does", binary.display())
        }
        Err(NotBuilt::Outdated { binary, source }) => panic!(
            "{} is older than {source}: run `{BUILD_COMMAND}`, or name an executable in {OVERRIDE_VARIABLE}",
            binary.display()
        ),
    }
}

/// Why a program of the workspace cannot be used as it was built.
#[derive(Debug)]
pub(crate) enum NotBuilt {
    /// The program's file does not exist.
    Missing(PathBuf),
    /// A source has changed after the build.
    Outdated {
        /// The program.
        binary: PathBuf,
        /// The changed source.
        source: String,
    },
}

/// Returns a program of the workspace as it was last built, in the parent directory of the running test's executable. Cargo's dep-info file lists its sources.
pub(crate) fn built(name: &str) -> Result<PathBuf, NotBuilt> {
    let own = std::env::current_exe().expect("the test's own path");
    let dir = own.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
    let binary = dir.join(name);
    let Some(built) = modified(&binary) else { return Err(NotBuilt::Missing(binary)) };
    let facts = std::fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let mut sources = facts.split_once(": ").map_or("", |(_, sources)| sources).split_whitespace();
    match sources.find(|source| modified(Path::new(source)).is_some_and(|changed| changed > built)) {
        Some(source) => Err(NotBuilt::Outdated { binary, source: source.to_owned() }),
        None => Ok(binary),
    }
}

/// Subcommands with a server of their own, at a port that upstream assigns.
const PARTS_WITH_SERVER: [&str; 4] = ["admission", "cloud-controller-manager", "controller-manager", "scheduler"];

/// Returns a command for a subcommand that can run beside others of its kind on this machine, without a server of its own.
///
/// # Panics
/// As [`oarlock`].
#[must_use]
pub fn part(name: &str) -> Command {
    let mut command = Command::new(oarlock());
    command.arg(name);
    if PARTS_WITH_SERVER.contains(&name) {
        command.args(["--secure-port", "0"]);
    }
    command
}

/// Returns a `cargo` command without the environment that the running cargo sets for its package. A build script that reads those variables would run again and rebuild all
/// dependents (ring's does).
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

/// Returns a built example of the package under test.
///
/// # Panics
/// When the example is missing: `cargo test` builds examples unless its targets are restricted.
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

/// Returns the machine's kubectl.
///
/// # Panics
/// When kubectl is missing: most tests judge by its answers, so they must not be skipped.
#[must_use]
pub fn kubectl() -> PathBuf {
    on_path("kubectl").expect("kubectl is not on the PATH: run tests/install-kubectl")
}

/// Returns the machine's Go, if installed.
#[must_use]
pub fn go() -> Option<PathBuf> {
    on_path("go")
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

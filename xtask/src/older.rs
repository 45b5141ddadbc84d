//! `cargo xtask older`: tests with the executable of an older commit.
//!
//! Such a commit is one that has a folder in `tests/integration/state`: its state is opened by a test of the gate. Here its executable is built, and a crew at
//! work is upgraded from it to today's build, set back by one step, and upgraded again; or it writes its state.

use anyhow::{Context, ensure};

use crate::compile::{Executable, compile};
use crate::executables;
use crate::since::INTEGRATION;
use crate::tool::root;

const STATES: &str = "tests/integration/state";
const WRITE: &str = "older::write_a_state";
const UPGRADE: &str = "faults::crew::users_are_served_from_an_older_build_to_todays_and_one_step_back";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The commit; without it each that has a folder in tests/integration/state.
    commit: Option<String>,
    /// Let its executable write that folder, instead of upgrading a crew.
    #[arg(long, requires = "commit")]
    write: bool,
}

impl Args {
    /// An upgrade from each commit that has a state.
    pub(crate) fn upgrades() -> Self {
        Self { commit: None, write: false }
    }
}

/// Compiles the tests and runs what the arguments ask for.
///
/// # Errors
/// When something does not compile, or a test fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    with(args, &compile()?)
}

/// Does the same as [`run`], with these test executables.
///
/// # Errors
/// When a commit is not known or does not compile, or a test fails.
pub(crate) fn with(args: &Args, executables: &[Executable]) -> anyhow::Result<()> {
    let tests = executables.iter().find(|own| own.package == INTEGRATION).context("no integration tests")?;
    let commits = match &args.commit {
        Some(commit) => vec![commit.clone()],
        None => states()?,
    };
    for commit in commits {
        let older = executables::build(Some(&commit), executables::DEV, &["oarlock"])?.join("oarlock");
        let mut command = tests.command();
        command.args(["--ignored", "--exact", "--nocapture", if args.write { WRITE } else { UPGRADE }]);
        if args.write {
            command.env("OARLOCK_BIN", older).env("OARLOCK_STATE", root().join(STATES).join(&commit));
        } else {
            command.env("OARLOCK_OLDER", older);
        }
        ensure!(tests.show(&mut command)?, "{commit}: failed");
    }
    Ok(())
}

fn states() -> anyhow::Result<Vec<String>> {
    let folders = std::fs::read_dir(root().join(STATES)).context(STATES)?;
    folders.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

//! Where bugs are built and tested.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::bugs::{BUGS, Bug};
use crate::tool::{capture, cargo, target};

/// Selected with every test: they bring the features of third-party crates that the workspace as a whole has, so that nothing is built twice
/// and a compile cache knows it. The programs have no library, and the libraries are low and small.
const FEATURES: [&str; 5] = ["oarlock", "oarlock-loadtests", "xtask", "oarlock-client", "oarlock-storage"];

/// A target folder in which crates with bugs are built.
pub(super) struct Nursery {
    folder: PathBuf,
    wrapper: PathBuf,
}

impl Nursery {
    /// The folder of a lane, with no trace of bugs. Cargo calls the wrapper for every crate; it adds the `--cfg` for the one that is named in the
    /// environment, and passes the others to the compile cache if there is one.
    pub(super) fn new<'a>(lane: usize, homes: impl IntoIterator<Item = &'a String>) -> anyhow::Result<Self> {
        let folder = target().join("seeded-bugs").join(lane.to_string());
        let wrapper = folder.join("rustc");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(
            &wrapper,
            r#"#!/bin/sh
case " $* " in
*" --crate-name $SEEDED_CRATE "*) exec "$@" --cfg "seeded_bug=\"$SEEDED_BUG\"" ;;
*) exec ${SEEDED_CACHE:+"$SEEDED_CACHE"} "$@" ;;
esac
"#,
        )?;
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let nursery = Self { folder, wrapper };
        if nursery.folder.join("debug").exists() {
            nursery.remove(homes)?;
        } else {
            nursery.take_over()?;
        }
        Ok(nursery)
    }

    /// That its test passes without a bug.
    pub(super) fn passes(&self, bug: &Bug) -> anyhow::Result<()> {
        let (passed, text) = self.test(bug, None)?;
        ensure!(passed && failed(&text).is_empty() && ran(&text, bug), "without {} it fails\n{text}", bug.name);
        Ok(())
    }

    /// Whether the bug's own test, and nothing else, fails with it.
    pub(super) fn verdict(&self, bug: &Bug, home: &String) -> anyhow::Result<Result<(), String>> {
        self.remove([home])?;
        let (passed, text) = self.test(bug, Some(home))?;
        self.remove([home])?;
        Ok(match failed(&text).as_slice() {
            [own] if own.ends_with(bug.test) && !passed => Ok(()),
            [] if passed && ran(&text, bug) => Err("its test passes with it".to_owned()),
            [] => Err(format!("its test did not come to an end\n{text}")),
            others => Err(format!("{} failed\n{text}", others.join(", "))),
        })
    }

    /// Begins with the libraries that the ordinary build has made, if any, so that only what a bug changes is built again. Programs and tests,
    /// most of the bytes, stay behind. Libraries are linked: a compiler replaces a file, it does not write into one.
    fn take_over(&self) -> anyhow::Result<()> {
        let (from, to) = (target().join("debug"), self.folder.join("debug"));
        if !from.join("deps").exists() {
            return Ok(());
        }
        std::fs::create_dir_all(to.join("deps"))?;
        let (ok, text) = capture(
            Command::new("cp").arg("--archive").args([from.join(".fingerprint"), from.join("build")]).arg(&to),
        )?;
        ensure!(ok, "{text}");
        for file in std::fs::read_dir(from.join("deps"))? {
            let (path, name) = file.map(|file| (file.path(), file.file_name()))?;
            if path.extension().is_some_and(|ending| ["rlib", "rmeta", "so"].iter().any(|known| ending == *known)) {
                std::fs::hard_link(&path, to.join("deps").join(name)).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Forgets what was built of these packages, with a bug or without.
    fn remove<'a>(&self, packages: impl IntoIterator<Item = &'a String>) -> anyhow::Result<()> {
        let mut command = cargo();
        command.args(["clean", "--target-dir"]).arg(&self.folder);
        for package in packages {
            command.args(["-p", package]);
        }
        let (ok, text) = capture(&mut command)?;
        if !ok {
            bail!("{text}");
        }
        Ok(())
    }

    /// Runs a bug's test, with the bug when its crate is given; whether it passed, and what it said.
    fn test(&self, bug: &Bug, home: Option<&str>) -> anyhow::Result<(bool, String)> {
        let name = if home.is_some() { bug.name } else { "" };
        let mut command = if bug.program { self.build_program() } else { self.test_here(bug) };
        let cache = std::env::var_os("RUSTC_WRAPPER").unwrap_or_default();
        command.env("RUSTC_WRAPPER", &self.wrapper).env("SEEDED_CACHE", cache).env("CARGO_INCREMENTAL", "0");
        command.env("SEEDED_CRATE", home.unwrap_or("none").replace('-', "_")).env("SEEDED_BUG", name);
        let (passed, text) = capture(&mut command)?;
        if !bug.program || !passed {
            return Ok((passed, text));
        }
        // With all packages, so that what the ordinary tests have built will do.
        let mut command = cargo();
        command.args(["test", "--workspace", "--test"]).args(bug.suite).args(["--", bug.test]);
        capture(command.env("OARLOCK_BIN", self.folder.join("debug/oarlock")))
    }

    fn build_program(&self) -> Command {
        let mut command = cargo();
        command.args(["build", "-p", "oarlock", "--target-dir"]).arg(&self.folder);
        command
    }

    /// The test of a crate with a bug. A suite is found by its name among all packages of the table; for a test inside a library only this one is
    /// selected, because cargo builds the tests of every library it is given.
    fn test_here(&self, bug: &Bug) -> Command {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast", "--target-dir"]).arg(&self.folder);
        let packages = BUGS.iter().filter(|row| !row.program).map(|row| row.package);
        let packages = packages.filter(|package| bug.suite.is_some() || *package == bug.package);
        for package in packages.chain(FEATURES).collect::<BTreeSet<_>>() {
            command.args(["-p", package]);
        }
        match bug.suite {
            Some(suite) => command.args(["--test", suite]),
            None => command.arg("--lib"),
        };
        command.args(["--", bug.test]);
        command
    }
}

/// The tests that libtest reports as failed.
fn failed(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect()
}

fn ran(text: &str, bug: &Bug) -> bool {
    let end = format!("{} ... ok", bug.test);
    text.lines().any(|line| line.starts_with("test ") && line.ends_with(&end))
}

//! Where bugs are built and tested.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use super::bugs::Bug;
use crate::tests::{Test, built};
use crate::tool::{cargo, output, run as exec, target};

/// Selected with every test: they bring the features of third-party crates that the workspace as a whole has, so that nothing is built twice
/// and a compile cache knows it. The programs have no library, and the libraries are low and small.
const FEATURES: [&str; 5] = ["oarlock", "oarlock-loadtests", "xtask", "oarlock-client", "oarlock-storage"];

/// The crate that decides whether a build holds bugs.
const SWITCH: &str = "oarlock-seeded-bug";

/// Tests and a program that hold every bug, asleep.
pub(super) struct Nursery {
    folder: PathBuf,
    tests: Vec<Test>,
    /// What tries the program, itself without bugs.
    outside: Vec<Test>,
}

impl Nursery {
    /// Builds what the tests of these bugs need.
    pub(super) fn build(bugs: &[&Bug]) -> anyhow::Result<Self> {
        let mut nursery = Self { folder: target().join("seeded-bugs"), tests: Vec::new(), outside: Vec::new() };
        nursery.prepare()?;
        let (programs, tests): (Vec<&Bug>, Vec<&Bug>) = bugs.iter().partition(|bug| bug.program);
        if !tests.is_empty() {
            nursery.tests = built(nursery.with_bugs(cargo().arg("test").args(selected(&tests))))?;
        }
        if !programs.is_empty() {
            exec(nursery.with_bugs(cargo().args(["build", "-p", "oarlock"])))?;
            // With all packages, so that what the ordinary tests have built will do.
            let suites: BTreeSet<_> = programs.iter().filter_map(|bug| bug.suite).collect();
            let suites = suites.into_iter().flat_map(|suite| ["--test", suite]);
            nursery.outside = built(cargo().args(["test", "--workspace"]).args(suites))?;
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
    pub(super) fn verdict(&self, bug: &Bug) -> anyhow::Result<Result<(), String>> {
        let (passed, text) = self.test(bug, Some(bug.name))?;
        Ok(match failed(&text).as_slice() {
            [own] if own.ends_with(bug.test) && !passed => Ok(()),
            [] if passed && ran(&text, bug) => Err("its test passes with it".to_owned()),
            [] => Err(format!("its test did not come to an end\n{text}")),
            others => Err(format!("{} failed\n{text}", others.join(", "))),
        })
    }

    /// Runs a bug's test, with a bug awake or without; whether it passed, and what it said.
    fn test(&self, bug: &Bug, awake: Option<&str>) -> anyhow::Result<(bool, String)> {
        let own = |test: &&Test| test.package == bug.package && test.suite.as_deref() == bug.suite;
        let tests = if bug.program { &self.outside } else { &self.tests };
        let test = tests.iter().find(own).with_context(|| format!("no such tests: {} {:?}", bug.package, bug.suite))?;
        let mut command = test.command();
        command.arg(bug.test).env("OARLOCK_SEEDED_BUG", awake.unwrap_or_default());
        if bug.program {
            command.env("OARLOCK_BIN", self.folder.join("debug/oarlock"));
        }
        test.capture(&mut command)
    }

    /// Makes the folder. It begins with the libraries that the ordinary build has made, if any, so that only what has bugs, and what stands upon
    /// that, is built again. Programs and tests, most of the bytes, stay behind. Libraries are linked: a compiler replaces a file, it does not
    /// write into one.
    fn prepare(&self) -> anyhow::Result<()> {
        let (from, to) = (target().join("debug"), self.folder.join("debug"));
        std::fs::create_dir_all(&self.folder)?;
        // Cargo calls it for every crate. It passes all but one to the compile cache, if there is one.
        let wrapper = format!(
            r#"#!/bin/sh
case " $* " in
*" --crate-name {} "*) exec "$@" --cfg 'seeded_bug="any"' ;;
*) exec ${{SEEDED_CACHE:+"$SEEDED_CACHE"}} "$@" ;;
esac
"#,
            SWITCH.replace('-', "_")
        );
        std::fs::write(self.wrapper(), wrapper)?;
        std::fs::set_permissions(self.wrapper(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        // Written last: what was begun and not finished would pass for a build with bugs.
        let prepared = self.folder.join("prepared");
        if prepared.exists() {
            return Ok(());
        }
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        if !from.join("deps").exists() {
            return Ok(std::fs::write(prepared, "")?);
        }
        std::fs::create_dir_all(to.join("deps"))?;
        output(Command::new("cp").arg("--archive").args([from.join(".fingerprint"), from.join("build")]).arg(&to))?;
        for file in std::fs::read_dir(from.join("deps"))? {
            let (path, name) = file.map(|file| (file.path(), file.file_name()))?;
            if path.extension().is_some_and(|ending| ["rlib", "rmeta", "so"].iter().any(|known| ending == *known)) {
                std::fs::hard_link(&path, to.join("deps").join(name)).with_context(|| path.display().to_string())?;
            }
        }
        output(cargo().args(["clean", "-p", SWITCH, "--target-dir"]).arg(&self.folder))?;
        Ok(std::fs::write(prepared, "")?)
    }

    fn wrapper(&self) -> PathBuf {
        self.folder.join("rustc")
    }

    /// A command of cargo that builds in the folder, with bugs.
    fn with_bugs<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let cache = std::env::var_os("RUSTC_WRAPPER").unwrap_or_default();
        command.env("RUSTC_WRAPPER", self.wrapper()).env("SEEDED_CACHE", cache).env("CARGO_INCREMENTAL", "0");
        command.env("CARGO_TARGET_DIR", &self.folder)
    }
}

/// The packages and suites of these bugs, as cargo's arguments.
fn selected(bugs: &[&Bug]) -> Vec<&'static str> {
    let packages: BTreeSet<_> = bugs.iter().map(|bug| bug.package).chain(FEATURES).collect();
    let suites: BTreeSet<_> = bugs.iter().filter_map(|bug| bug.suite).collect();
    let mut arguments: Vec<_> = packages.into_iter().flat_map(|package| ["-p", package]).collect();
    arguments.extend(suites.into_iter().flat_map(|suite| ["--test", suite]));
    if bugs.iter().any(|bug| bug.suite.is_none()) {
        arguments.push("--lib");
    }
    arguments
}

/// The tests that libtest reports as failed.
fn failed(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect()
}

fn ran(text: &str, bug: &Bug) -> bool {
    let end = format!("{} ... ok", bug.test);
    text.lines().any(|line| line.starts_with("test ") && line.ends_with(&end))
}

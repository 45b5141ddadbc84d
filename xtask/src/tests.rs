//! The workspace's tests: built by cargo, started by us.

mod failures;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, ensure};
use cargo_metadata::{Artifact, Message, MetadataCommand, Package};

use crate::tool::{capture_in, cargo, root, run as exec, say, target};

/// Whose tests are all in virtual time: they do not notice how long they wait for a processor.
const VIRTUAL: &str = "oarlock-tests-sim";
/// Whose tests mostly wait for real processes, so that there is room for one more of them than there are processors.
pub(crate) const WAITING: &str = "oarlock-tests-integration";

/// An executable with tests.
pub(crate) struct Test {
    pub(crate) package: String,
    /// `--test` target of the package; none: the tests inside its library or program.
    pub(crate) suite: Option<String>,
    path: PathBuf,
    /// Where it is started: its package's folder.
    home: PathBuf,
}

/// Builds everything and runs every test. What is in virtual time fills the pauses of the others. In the end lists what was left out on this machine, and
/// why tests failed.
///
/// # Errors
/// When something does not build, or when a test failed, after everything has run.
pub(crate) fn run() -> anyhow::Result<()> {
    fs::write(skipped(), "")?;
    let mut tests = built(cargo().args(["test", "--workspace"]))?;
    tests.sort_by(|a, b| (&a.package, &a.suite).cmp(&(&b.package, &b.suite)));
    let (beside, tests): (Vec<Test>, Vec<Test>) = tests.into_iter().partition(|test| test.package == VIRTUAL);
    let failed = std::thread::scope(|scope| -> anyhow::Result<Vec<Failed>> {
        let beside = scope.spawn(|| failing(&beside, |test| test.run_beside()));
        let mut failed = failing(&tests, Test::run)?;
        failed.extend(beside.join().map_err(|_| anyhow!("what ran beside panicked"))??);
        Ok(failed)
    })?;
    let docs = exec(cargo().args(["test", "--workspace", "--doc"]));
    let left_out = fs::read_to_string(skipped())?;
    say(&format!("tests that were left out on this machine: {}\n{left_out}", left_out.lines().count()));
    for Failed { name, why } in &failed {
        say(&format!("tests failed in {name}\n{}", why.join("\n")));
    }
    ensure!(failed.is_empty(), "tests failed");
    docs
}

/// Where tests write that they are left out (`oarlock_testkit::skipped!`).
fn skipped() -> PathBuf {
    target().join("skipped")
}

/// Builds the tests that a command of cargo would run.
///
/// # Errors
/// When something does not build.
pub(crate) fn built(tests: &mut Command) -> anyhow::Result<Vec<Test>> {
    let packages = MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?.packages;
    tests.args(["--no-run", "--message-format", "json-render-diagnostics"]).current_dir(root());
    let out = tests.stderr(Stdio::inherit()).output().context("cargo: not started")?;
    ensure!(out.status.success(), "tests do not build");
    let mut found = Vec::new();
    for message in Message::parse_stream(out.stdout.as_slice()) {
        if let Message::CompilerArtifact(artifact) = message? {
            found.extend(Test::of(artifact, &packages)?);
        }
    }
    Ok(found)
}

/// Runs tests; those that failed.
fn failing(tests: &[Test], run: impl Fn(&Test) -> anyhow::Result<(bool, String)>) -> anyhow::Result<Vec<Failed>> {
    let mut failed = Vec::new();
    for test in tests {
        let (passed, said) = run(test)?;
        if !passed {
            failed.push(Failed { name: test.name(), why: failures::of(&said) });
        }
    }
    Ok(failed)
}

/// An executable of which tests failed.
struct Failed {
    name: String,
    why: Vec<String>,
}

impl Test {
    fn of(artifact: Artifact, packages: &[Package]) -> anyhow::Result<Option<Self>> {
        let package = packages.iter().find(|package| package.id == artifact.package_id);
        let (Some(path), Some(package), true) = (artifact.executable, package, artifact.profile.test) else {
            return Ok(None);
        };
        let home = package.manifest_path.parent().context("a package without a folder")?.into();
        let suite = artifact.target.is_test().then_some(artifact.target.name);
        Ok(Some(Self { package: package.name.to_string(), suite, path: path.into(), home }))
    }

    /// Its command, as cargo would give it.
    pub(crate) fn command(&self) -> Command {
        self.of_program(Command::new(&self.path))
    }

    /// Runs a command for it in its folder; whether it passed, and what it said.
    pub(crate) fn capture(&self, command: &mut Command) -> anyhow::Result<(bool, String)> {
        capture_in(&self.home, command)
    }

    /// All of it, with its output in ours; whether it passed, and what it said.
    fn run(&self) -> anyhow::Result<(bool, String)> {
        say(&format!("     Running {}", self.name()));
        let mut command = self.command();
        if self.package == WAITING {
            let threads = std::thread::available_parallelism()?.get() + 1;
            command.args(["--test-threads", &threads.to_string()]);
        }
        let mut child = command.current_dir(&self.home).stdout(Stdio::piped()).spawn().with_context(|| self.name())?;
        let mut said = String::new();
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(|out| out.split(b'\n')) {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            say(&line);
            said = said + &line + "\n";
        }
        Ok((child.wait()?.success(), said))
    }

    /// Runs a command for it in its folder, with its output in ours; whether it passed.
    pub(crate) fn show(&self, command: &mut Command) -> anyhow::Result<bool> {
        Ok(command.current_dir(&self.home).status().with_context(|| self.name())?.success())
    }

    /// All of it with what others leave of the processors; it is shown when it is over. Whether it passed, and what it said.
    fn run_beside(&self) -> anyhow::Result<(bool, String)> {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(&self.path);
        let (passed, text) = self.capture(&mut self.of_program(nice))?;
        say(&format!("     Running {}\n{text}", self.name()));
        Ok((passed, text))
    }

    fn of_program(&self, mut command: Command) -> Command {
        command.env("CARGO_MANIFEST_DIR", &self.home).env("CARGO_PKG_NAME", &self.package);
        command.env("OARLOCK_SKIPPED", skipped());
        command
    }

    fn name(&self) -> String {
        self.suite.as_ref().map_or_else(|| self.package.clone(), |suite| format!("{} --test {suite}", self.package))
    }
}

//! The one build of the gate: every library, program, example and test executable of the workspace, checked by clippy while it is compiled.
//!
//! `cargo clippy` would check everything in a pass of its own, third-party crates included, and `cargo build -p oarlock` would choose other features
//! for some of them than the tests do. One command with one set of features compiles each crate once.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use cargo_metadata::{Artifact, Message, MetadataCommand, Package};

use crate::tool::{capture_in, cargo, output, root, say, target};

/// Niceness of tests under virtual time. They give way to the tests in real time, yet end in good time while programs of the ordinary niceness 0 keep every processor
/// busy: beside one of those they get a quarter of the processor, with the niceness 19 it would be a seventieth (sched(7)).
const VIRTUAL_NICENESS: &str = "5";

/// An executable with tests.
pub(crate) struct Executable {
    pub(crate) package: String,
    /// `--test` target of the package; none: the tests inside its library or program.
    pub(crate) suite: Option<String>,
    path: PathBuf,
    /// The folder of the package, in which the executable is started.
    home: PathBuf,
}

/// Compiles the workspace and returns its test executables, sorted by package.
///
/// # Errors
/// When something does not compile, or clippy warns.
pub(crate) fn compile() -> anyhow::Result<Vec<Executable>> {
    say("$ cargo build --workspace --all-targets, with clippy");
    executables(linted(&mut cargo())?.args(WORKSPACE))
}

/// Like [`compile`], into a target folder of its own, without seeded bugs and without clippy.
///
/// # Errors
/// When something does not compile.
pub(crate) fn compile_plain() -> anyhow::Result<Vec<Executable>> {
    say("$ cargo build --workspace --all-targets, without seeded bugs");
    let mut plain = cargo();
    plain.env("RUSTFLAGS", "--cfg seeded_bug=\"none\"").env("CARGO_TARGET_DIR", target().join("plain"));
    executables(plain.args(WORKSPACE))
}

/// Compiles the tests of one package in the profile `release`, in which a seed of the worlds takes a fraction of the processor time of a debug build.
///
/// # Errors
/// When something does not compile.
pub(crate) fn compile_released(package: &str) -> anyhow::Result<Vec<Executable>> {
    say(&format!("$ cargo build --release --tests -p {package}"));
    executables(cargo().args(["build", "--release", "--tests", "-p", package]))
}

/// Arguments of the cargo command that compiles the workspace for the tests.
const WORKSPACE: [&str; 3] = ["build", "--workspace", "--all-targets"];

/// Runs a build of cargo's, and returns the test executables that it made.
fn executables(build: &mut Command) -> anyhow::Result<Vec<Executable>> {
    let packages = MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?.packages;
    build.args(["--message-format", "json-render-diagnostics"]);
    let out = build.current_dir(root()).stderr(Stdio::inherit()).output().context("cargo: not started")?;
    ensure!(out.status.success(), "something does not compile, or clippy warns");
    let mut found = Vec::new();
    for message in Message::parse_stream(out.stdout.as_slice()) {
        if let Message::CompilerArtifact(artifact) = message? {
            found.extend(Executable::of(artifact, &packages)?);
        }
    }
    found.sort_by(|a, b| (&a.package, &a.suite).cmp(&(&b.package, &b.suite)));
    Ok(found)
}

/// Lets clippy's driver, which is a compiler with further checks, compile the workspace's own crates. Warnings are errors.
pub(crate) fn linted(command: &mut Command) -> anyhow::Result<&mut Command> {
    let toolchain = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let driver = PathBuf::from(toolchain.trim()).join("bin/clippy-driver");
    ensure!(driver.exists(), "{} is not there: rustup component add clippy", driver.display());
    // The form in which `cargo clippy` hands its arguments on.
    let warnings = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    Ok(command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", warnings).env("CARGO_INCREMENTAL", "0"))
}

impl Executable {
    fn of(artifact: Artifact, packages: &[Package]) -> anyhow::Result<Option<Self>> {
        let package = packages.iter().find(|package| package.id == artifact.package_id);
        let (Some(path), Some(package), true) = (artifact.executable, package, artifact.profile.test) else {
            return Ok(None);
        };
        let home = package.manifest_path.parent().context("a package without a folder")?.into();
        let suite = artifact.target.is_test().then_some(artifact.target.name);
        Ok(Some(Self { package: package.name.to_string(), suite, path: path.into(), home }))
    }

    /// A command that runs the executable as cargo would, in its package's folder.
    pub(crate) fn command(&self) -> Command {
        self.wrapped(Command::new(&self.path))
    }

    /// Returns [`command`](Self::command) with a limit in seconds; with [`VIRTUAL_NICENESS`] unless the tests run in real time.
    pub(crate) fn bounded(&self, seconds: u32, real_time: bool) -> Command {
        let mut command = Command::new("nice");
        let niceness = if real_time { "0" } else { VIRTUAL_NICENESS };
        command.args(["-n", niceness, "timeout", "--kill-after=5", &seconds.to_string()]).arg(&self.path);
        self.wrapped(command)
    }

    /// Like [`command`](Self::command), with [`VIRTUAL_NICENESS`].
    pub(crate) fn nice(&self) -> Command {
        let mut nice = Command::new("nice");
        nice.args(["-n", VIRTUAL_NICENESS]).arg(&self.path);
        self.wrapped(nice)
    }

    fn wrapped(&self, mut command: Command) -> Command {
        command.current_dir(&self.home).env("CARGO_MANIFEST_DIR", &self.home).env("CARGO_PKG_NAME", &self.package);
        command
    }

    /// Runs a command for the executable in its package's folder, and returns whether it passed, with its output.
    pub(crate) fn capture(&self, command: &mut Command) -> anyhow::Result<(bool, String)> {
        capture_in(&self.home, command)
    }

    /// Runs a command for the executable with its output in ours, and returns whether it passed.
    pub(crate) fn show(&self, command: &mut Command) -> anyhow::Result<bool> {
        Ok(command.status().with_context(|| self.name())?.success())
    }

    /// The package, and the suite where it is not the library.
    pub(crate) fn name(&self) -> String {
        self.suite.as_ref().map_or_else(|| self.package.clone(), |suite| format!("{} --test {suite}", self.package))
    }

    /// The names of its tests, without those that are ignored.
    ///
    /// # Errors
    /// When the executable does not list its tests.
    pub(crate) fn tests(&self) -> anyhow::Result<Vec<String>> {
        let list = |more: &[&str]| -> anyhow::Result<Vec<String>> {
            let text = output(self.command().args(["--list", "--format", "terse"]).args(more))?;
            Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
        };
        let ignored = list(&["--ignored"])?;
        Ok(list(&[])?.into_iter().filter(|name| !ignored.contains(name)).collect())
    }
}

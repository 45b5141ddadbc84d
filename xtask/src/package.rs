//! `cargo xtask package`: builds the Debian package with cargo-deb, and shows that it installs, runs, survives kills and leaves nothing when it is purged.

mod host;
mod life;
mod needs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::tool::{cargo, root, run as exec, say, target};

/// A version that reads the table of services/oarlock/Cargo.toml; it is compiled into target/tools.
const CARGO_DEB: &str = "3.8.0";
/// The profile of the packaged program, as in the table.
const PROFILE: &str = "dist";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package this program instead of one that is built with the profile `dist`.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Only build the package.
    #[arg(long)]
    no_test: bool,
}

impl Args {
    /// A package of today's tree, with its test.
    pub(crate) const fn tested() -> Self {
        Self { program: None, no_test: false }
    }
}

/// Builds the package, and tests it unless told otherwise.
///
/// # Errors
/// When something does not build, or the package does not do what it should.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.no_test {
        needs::meet()?;
    }
    let package = build(args.program.as_deref())?;
    if !args.no_test {
        life::of(&package)?;
    }
    say(&package.display().to_string());
    Ok(())
}

/// Builds the package; returns its file.
fn build(program: Option<&Path>) -> anyhow::Result<PathBuf> {
    let tools = target().join("tools");
    exec(cargo().args(["install", "--locked", "--root"]).arg(&tools).arg(format!("cargo-deb@{CARGO_DEB}")))?;
    let mut deb = Command::new(tools.join("bin/cargo-deb"));
    deb.args(["-p", "oarlock", "--no-build", "--strip"]);
    if let Some(program) = program {
        // cargo-deb takes programs out of a target folder.
        let built = scratch().join("target");
        fs::create_dir_all(built.join(PROFILE))?;
        fs::copy(program, built.join(PROFILE).join("oarlock")).with_context(|| program.display().to_string())?;
        deb.env("CARGO_TARGET_DIR", built);
    } else {
        exec(cargo().args(["build", "--profile", PROFILE, "-p", "oarlock"]))?;
    }
    let folder = target().join("debian");
    fs::create_dir_all(&folder)?;
    let name = format!("oarlock_{}-1_{}.deb", env!("CARGO_PKG_VERSION"), architecture()?);
    let package = folder.join(name);
    exec(deb.arg("--output").arg(&package).current_dir(root()))?;
    Ok(package)
}

/// Returns Debian's name of this machine's architecture.
fn architecture() -> anyhow::Result<String> {
    let said = crate::tool::output(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(said.trim().to_owned())
}

/// Folder for everything that the chore makes besides the package.
fn scratch() -> PathBuf {
    target().join("package")
}

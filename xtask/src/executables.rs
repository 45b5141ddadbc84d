//! `cargo xtask executables`: builds programs of today's tree, or of another commit beside it.
//!
//! A commit is checked out in `target/against/<commit>`, and all such commits share the target folder `target/against/target`. They are built with today's
//! toolchain, cargo settings and profiles, so that two builds with one profile differ by their sources alone.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tool::{cargo, output, root, run as exec, say, target};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The packages of the programs.
    #[arg(required = true)]
    packages: Vec<String>,
    /// Build this commit instead of today's tree.
    #[arg(long, value_name = "REF")]
    commit: Option<String>,
    /// Cargo's profile.
    #[arg(long, default_value = DEV)]
    profile: String,
}

/// Cargo's profile for everyday work, whose folder has another name.
pub(crate) const DEV: &str = "dev";

/// Builds, and prints the folder of the executables in its last line.
///
/// # Errors
/// As [`build`].
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let packages: Vec<&str> = args.packages.iter().map(String::as_str).collect();
    say(&build(args.commit.as_deref(), &args.profile, &packages)?.display().to_string());
    Ok(())
}

/// Builds the programs of these packages, of today's tree without a commit; the folder of the executables. Another commit that is built later with the
/// same profile takes their places.
///
/// # Errors
/// When the commit is not known, its work tree was changed, or something does not compile.
pub(crate) fn build(commit: Option<&str>, profile: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--profile", profile]);
    command.args(packages.iter().flat_map(|package| ["-p", package]));
    let built = match commit {
        None => target(),
        Some(commit) => {
            let built = target().join("against/target");
            let manifest = work_tree(commit)?.join("Cargo.toml");
            command.args(["--locked", "--target-dir"]).arg(&built).arg("--manifest-path").arg(manifest);
            command.arg("--config").arg(profiles()?);
            built
        }
    };
    exec(&mut command)?;
    Ok(built.join(if profile == DEV { "debug" } else { profile }))
}

/// The work tree of a commit, checked out when it is not there.
fn work_tree(commit: &str) -> anyhow::Result<PathBuf> {
    let git = |words: &[&str]| output(Command::new("git").args(words));
    let commit = git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?.trim().to_owned();
    let tree = target().join("against").join(&commit);
    if !tree.exists() {
        exec(Command::new("git").args(["worktree", "add", "--force", "--detach"]).arg(&tree).arg(&commit))?;
    }
    let shown = tree.display().to_string();
    let (head, changes) = (git(&["-C", &shown, "rev-parse", "HEAD"])?, git(&["-C", &shown, "status", "--porcelain"])?);
    let whole = head.trim() == commit && changes.is_empty();
    ensure!(whole, "{shown} was changed or is not whole: git worktree remove --force {shown}");
    Ok(tree)
}

/// Writes today's profiles as a file of cargo's configuration, which takes precedence over a manifest: an older manifest may have no `dist`, or
/// another `release`.
fn profiles() -> anyhow::Result<PathBuf> {
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml"))?.parse()?;
    let profiles = manifest.get("profile").context("Cargo.toml has no profiles")?;
    let file = target().join("against/profiles.toml");
    std::fs::write(&file, toml::Table::from_iter([("profile".to_owned(), profiles.clone())]).to_string())?;
    Ok(file)
}

//! Which packages depend on what changed since a commit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use cargo_metadata::{MetadataCommand, Package};

use crate::tool::{output, root, say};

/// The executable that whole-system tests start, which is no dependency of theirs to cargo.
const PROGRAM: &str = "oarlock";
/// The packages with such tests.
const START_PROGRAMS: [&str; 2] = [INTEGRATION, ORACLE];
/// The tests of whole programs.
pub(crate) const INTEGRATION: &str = "oarlock-tests-integration";
/// Plays scripts at the program and compares its answers with upstream's.
const ORACLE: &str = "oarlock-tests-oracle";
/// Files that belong to no package and decide what every package is.
const EVERYTHING: [&str; 5] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/", "xtask/"];

/// The packages that a change may have broken.
pub(crate) type Affected = BTreeSet<String>;

/// The packages that hold a file which differs from `commit` (untracked ones too), and all that depend on them.
///
/// # Errors
/// When git does not know the commit.
pub(crate) fn affected(commit: &str) -> anyhow::Result<Affected> {
    let differ = output(Command::new("git").args(["diff", "--name-only", commit, "--"]))?;
    let new = output(Command::new("git").args(["ls-files", "--others", "--exclude-standard"]))?;
    let files: Vec<&str> = differ.lines().chain(new.lines()).collect();
    let packages = MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?.packages;
    let everything = files.iter().any(|file| EVERYTHING.iter().any(|begin| file.starts_with(begin)));
    let found: Affected = if everything {
        packages.iter().map(|package| package.name.to_string()).collect()
    } else {
        let nodes: Vec<Node> = packages.iter().filter_map(Node::of).collect();
        dependents(&nodes, &files)
    };
    say(&format!("since {commit}: {} files, {} of {} packages", files.len(), found.len(), packages.len()));
    Ok(found)
}

/// Whether a test is to run: all are when nothing is said of a commit, those of affected packages, and always the oracle and the transcript.
pub(crate) fn selects(affected: Option<&Affected>, package: &str, test: &str) -> bool {
    let always = package == ORACLE || (package == INTEGRATION && test.starts_with("transcript::"));
    affected.is_none_or(|packages| always || packages.contains(package))
}

/// What decides whether a package is affected.
struct Node {
    name: String,
    /// Its folder below the workspace's.
    folder: PathBuf,
    needs: Vec<String>,
}

impl Node {
    fn of(package: &Package) -> Option<Self> {
        let folder = package.manifest_path.parent()?.as_std_path().strip_prefix(root()).ok()?.to_owned();
        let mut needs: Vec<String> = package.dependencies.iter().map(|dependency| dependency.name.clone()).collect();
        if START_PROGRAMS.contains(&package.name.as_str()) {
            needs.push(PROGRAM.to_owned());
        }
        Some(Self { name: package.name.to_string(), folder, needs })
    }
}

/// The packages of which a file is one of these, and all that need them.
fn dependents(packages: &[Node], files: &[&str]) -> Affected {
    let changed = |package: &&Node| files.iter().any(|file| Path::new(file).starts_with(&package.folder));
    let mut found: Affected = packages.iter().filter(changed).map(|package| package.name.clone()).collect();
    loop {
        let more = packages.iter().filter(|package| package.needs.iter().any(|name| found.contains(name)));
        let more: Affected = more.map(|package| package.name.clone()).collect();
        if more.is_subset(&found) {
            return found;
        }
        found.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::{Affected, Node, dependents};

    #[test]
    fn what_needs_what_changed_is_affected_however_far() {
        let node = |name: &str, needs: &[&str]| Node {
            name: name.to_owned(),
            folder: format!("libs/{name}").into(),
            needs: needs.iter().map(|&name| name.to_owned()).collect(),
        };
        let packages =
            [node("meta", &[]), node("codec", &["meta"]), node("api", &["codec", "tokio"]), node("bus", &[])];
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Affected>();
        assert_eq!(dependents(&packages, &["libs/codec/src/lib.rs", "README.md"]), names(&["api", "codec"]));
        assert_eq!(dependents(&packages, &["libs/meta/Cargo.toml"]), names(&["api", "codec", "meta"]));
        assert_eq!(dependents(&packages, &["libs/metal/x.rs", "docs/a.md"]), names(&[]));
    }
}

//! Finds the packages that depend on changes since a commit.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use cargo_metadata::{MetadataCommand, Package};

use crate::tool::{output, root, rust_files, say};

/// The executable that whole-system tests start. Cargo knows no dependency of these tests on it.
const PROGRAM: &str = "oarlock";
/// The packages whose tests start [`PROGRAM`].
const START_PROGRAMS: [&str; 2] = [INTEGRATION, ORACLE];
/// The package of the tests of whole programs.
pub(crate) const INTEGRATION: &str = "oarlock-tests-integration";
/// The package that sends scripted requests to the program and compares the answers with upstream's.
const ORACLE: &str = "oarlock-tests-oracle";
/// Files outside of all packages that affect every package.
const EVERYTHING: [&str; 5] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/", "xtask/"];

/// Files outside of a package's folder that its build script or its tests read: the beginning of their paths, and the package. Files that sources include
/// (`include_str!`) need no row.
const READ: [(&str, &str); 12] = [
    ("proto/", "oarlock-contracts"),
    ("Dockerfile", INTEGRATION),
    ("compose.yaml", INTEGRATION),
    ("compose/", INTEGRATION),
    ("docs/operations/alerts.md", INTEGRATION),
    ("docs/operations/metrics.md", INTEGRATION),
    ("docs/operations/tunnel", INTEGRATION),
    ("helm/", INTEGRATION),
    ("observe/", INTEGRATION),
    ("tests/install-", INTEGRATION),
    ("tests/nightly.toml", INTEGRATION),
    ("tests/oracle/cases/", INTEGRATION),
];

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
        let mut nodes: Vec<Node> = packages.iter().filter_map(Node::of).collect();
        for file in rust_files()? {
            let text = std::fs::read_to_string(root().join(&file))?;
            if let Some(node) = nodes.iter_mut().find(|node| file.starts_with(&node.folder)) {
                node.reads.extend(included(&file, &text));
            }
        }
        dependents(&nodes, &files)
    };
    say(&format!("since {commit}: {} files, {} of {} packages", files.len(), found.len(), packages.len()));
    Ok(found)
}

/// Whether a test runs: all tests without a commit, otherwise those of affected packages, and always the oracle and the transcript.
pub(crate) fn selects(affected: Option<&Affected>, package: &str, test: &str) -> bool {
    let always = package == ORACLE || (package == INTEGRATION && test.starts_with("transcript::"));
    affected.is_none_or(|packages| always || packages.contains(package))
}

/// The facts that decide whether a package is affected.
struct Node {
    name: String,
    /// The package's folder, relative to the workspace's.
    folder: PathBuf,
    needs: Vec<String>,
    /// Beginnings of the paths of files that the package reads from other folders.
    reads: Vec<String>,
}

impl Node {
    fn of(package: &Package) -> Option<Self> {
        let folder = package.manifest_path.parent()?.as_std_path().strip_prefix(root()).ok()?.to_owned();
        let mut needs: Vec<String> = package.dependencies.iter().map(|dependency| dependency.name.clone()).collect();
        if START_PROGRAMS.contains(&package.name.as_str()) {
            needs.push(PROGRAM.to_owned());
        }
        let reads = READ.iter().filter(|(_, reader)| *reader == package.name.as_str());
        let reads = reads.map(|(begin, _)| (*begin).to_owned()).collect();
        Some(Self { name: package.name.to_string(), folder, needs, reads })
    }

    fn holds(&self, file: &str) -> bool {
        Path::new(file).starts_with(&self.folder) || self.reads.iter().any(|begin| file.starts_with(begin))
    }
}

/// The files that a source file includes by a path relative to itself.
fn included(file: &Path, text: &str) -> Vec<String> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let calls = ["include_str!(\"", "include_bytes!(\""];
    let paths = calls.iter().flat_map(|call| text.split(call).skip(1)).filter_map(|rest| rest.split('"').next());
    paths.map(|path| plain(&folder.join(path)).to_string_lossy().into_owned()).collect()
}

/// A relative path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Returns the packages that hold one of the files, and all packages that depend on them.
fn dependents(packages: &[Node], files: &[&str]) -> Affected {
    let changed = |package: &&Node| files.iter().any(|file| package.holds(file));
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
    use std::path::Path;

    use cargo_metadata::MetadataCommand;

    use super::{Affected, INTEGRATION, Node, ORACLE, READ, dependents, included, selects};
    use crate::tool::root;

    fn node(name: &str, needs: &[&str]) -> Node {
        let needs = needs.iter().map(|&name| name.to_owned()).collect();
        Node { name: name.to_owned(), folder: format!("libs/{name}").into(), needs, reads: Vec::new() }
    }

    fn names(names: &[&str]) -> Affected {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_needs_what_changed_is_affected_however_far() {
        let packages =
            [node("meta", &[]), node("codec", &["meta"]), node("api", &["codec", "tokio"]), node("bus", &[])];
        assert_eq!(dependents(&packages, &["libs/codec/src/lib.rs", "README.md"]), names(&["api", "codec"]));
        assert_eq!(dependents(&packages, &["libs/meta/Cargo.toml"]), names(&["api", "codec", "meta"]));
        assert_eq!(dependents(&packages, &["libs/metal/x.rs", "docs/a.md"]), names(&[]));
    }

    #[test]
    fn a_package_is_affected_by_what_it_reads_from_other_folders() {
        let mut bus = node("bus", &[]);
        bus.reads = vec!["proto/".to_owned()];
        let text = "const A: &str = include_str!(\"../../../README.md\"); include_bytes!(\"../data/b\")";
        bus.reads.extend(included(Path::new("libs/bus/src/a.rs"), text));
        let packages = [bus, node("api", &["bus"])];
        assert_eq!(dependents(&packages, &["proto/oarlock/a.proto"]), names(&["api", "bus"]));
        assert_eq!(dependents(&packages, &["README.md"]), names(&["api", "bus"]));
        assert_eq!(dependents(&packages, &["README", "docs/a.md"]), names(&[]));
        assert_eq!(included(Path::new("libs/bus/src/a.rs"), text), ["README.md", "libs/bus/data/b"]);
    }

    #[test]
    fn rows_of_files_that_are_read_are_of_packages_and_files_that_exist() {
        let packages = MetadataCommand::new().current_dir(root()).no_deps().exec().unwrap().packages;
        for (begin, reader) in READ {
            assert!(packages.iter().any(|package| package.name == reader), "{reader}");
            let (folder, name) = begin.rsplit_once('/').unwrap_or(("", begin));
            let mut there = std::fs::read_dir(root().join(folder)).unwrap();
            assert!(there.any(|file| file.unwrap().file_name().to_string_lossy().starts_with(name)), "{begin}");
        }
    }

    #[test]
    fn the_oracle_and_the_transcript_always_run() {
        let nothing = Affected::new();
        assert!(selects(Some(&nothing), ORACLE, "recorded::pods"));
        assert!(selects(Some(&nothing), INTEGRATION, "transcript::crew"));
        assert!(!selects(Some(&nothing), INTEGRATION, "crash::kill"));
        assert!(selects(Some(&names(&["oarlock-store"])), "oarlock-store", "view"));
        assert!(!selects(Some(&names(&["oarlock-store"])), "oarlock-informer", "view"));
        assert!(selects(None, "oarlock-informer", "view"));
    }
}

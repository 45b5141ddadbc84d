//! Finds unused dependencies: versions in the workspace's manifest that no crate takes, and dependencies of a crate that none of its files names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use cargo_metadata::{Dependency, Package};
use serde::Deserialize;

use crate::tool::{root, rust_files};

/// The part of the workspace's manifest that holds versions.
#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    dependencies: BTreeMap<String, toml::Value>,
}

/// A crate of the workspace.
struct Crate {
    name: String,
    needs: Vec<Need>,
    /// The words in its Rust files.
    words: BTreeSet<String>,
}

/// A dependency.
struct Need {
    package: String,
    /// The dependency's name in sources.
    word: String,
}

/// A line for each dependency that is not used.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn find(packages: &[Package]) -> anyhow::Result<Vec<String>> {
    let manifest: Manifest =
        toml::from_str(&std::fs::read_to_string(root().join("Cargo.toml"))?).context("Cargo.toml")?;
    let versions: Vec<String> = manifest.workspace.dependencies.into_keys().collect();
    let files: Vec<PathBuf> = rust_files()?.iter().map(|file| root().join(file)).collect();
    let crates = packages.iter().map(|package| Crate::read(package, packages, &files));
    Ok(unused(&versions, &crates.collect::<anyhow::Result<Vec<_>>>()?))
}

/// A crate that is named in a comment only counts as used, so that no line is wrong.
fn unused(versions: &[String], crates: &[Crate]) -> Vec<String> {
    let taken = |version: &&String| crates.iter().flat_map(|one| &one.needs).any(|need| need.package == **version);
    let mut findings: Vec<String> = Vec::new();
    findings.extend(
        versions.iter().filter(|version| !taken(version)).map(|name| format!("Cargo.toml: no crate depends on {name}")),
    );
    for one in crates {
        let unnamed = one.needs.iter().filter(|need| !one.words.contains(&need.word));
        findings.extend(unnamed.map(|need| format!("{}: depends on {} and does not use it", one.name, need.package)));
    }
    findings
}

impl Crate {
    fn read(package: &Package, packages: &[Package], files: &[PathBuf]) -> anyhow::Result<Self> {
        let folder = package.manifest_path.parent().context("a package without a folder")?;
        let mut words = BTreeSet::new();
        for file in files.iter().filter(|file| file.starts_with(folder)) {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            words.extend(split(&text).map(str::to_owned));
        }
        let needs = package.dependencies.iter().map(|dependency| Need::of(dependency, packages)).collect();
        Ok(Self { name: package.name.to_string(), needs, words })
    }
}

impl Need {
    fn of(dependency: &Dependency, packages: &[Package]) -> Self {
        let own = packages.iter().find(|package| package.name.as_str() == dependency.name);
        let library = own.and_then(|package| package.targets.iter().find(|target| target.is_lib()));
        let name = dependency.rename.as_ref().or(library.map(|target| &target.name)).unwrap_or(&dependency.name);
        Self { package: dependency.name.clone(), word: name.replace('-', "_") }
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Crate, Need, split, unused};

    #[test]
    fn what_is_depended_on_is_named() {
        let need = |name: &str| Need { package: name.to_owned(), word: name.replace('-', "_") };
        let words = |text: &str| split(text).map(str::to_owned).collect();
        let store = Crate {
            name: "store".to_owned(),
            needs: vec![need("async-trait"), need("tokio")],
            words: words("#[async_trait::async_trait]\nuse tokio_util::sync;"),
        };
        let versions = ["async-trait", "tokio", "ryu"].map(str::to_owned);
        let found = unused(&versions, &[store]);
        assert_eq!(found, ["Cargo.toml: no crate depends on ryu", "store: depends on tokio and does not use it"]);
    }
}

//! `cargo xtask check-layers`: checks the layers of ARCHITECTURE.md. Dependencies point strictly downwards, third-party engines have owners, client-side actors do not bypass the
//! API, names in the tables below exist, and every dependency is used.

mod names;
mod unused;

use std::collections::HashMap;

use anyhow::{Context, bail};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::tool::{root, say};

/// The allowed dependencies inside one layer (layer 1 in its written order is checked by position).
const LIBS: &[&str] = &[
    "telemetry",
    "contracts",
    "schema",
    "pods",
    "codec",
    "cel",
    "apis",
    "patch",
    "storage",
    "pki",
    "config",
    "bus",
    "cloud",
    "client",
    "streams",
    "testkit",
];

/// Third-party crates that only some of our crates may name.
const OWNERS: &[(&str, &[&str])] = &[
    ("ractor", &["oarlock-runtime"]),
    ("async-nats", &["oarlock-bus"]),
    ("redb", &["oarlock-storage"]),
    ("foyer", &["oarlock-store"]),
    (
        "hyper",
        &[
            "oarlock-apiserver",
            "oarlock-serving",
            "oarlock-kubelet",
            "oarlock-konnectivity",
            "oarlock-client",
            "oarlock-streams",
            "oarlock-exporter",
            "oarlock-testkit",
        ],
    ),
];

/// Actors that see the cluster only through the client and its informers.
const CLIENT_SIDE: &[&str] = &["scheduler", "controllers", "kubelet", "placement", "konnectivity"];
/// Parts of an API server.
const SERVER_SIDE: &[&str] = &["store", "registry", "admission", "auth", "apiserver"];

/// Checks every workspace crate and fails with all findings.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?;
    let layers: HashMap<&str, u64> =
        metadata.packages.iter().filter_map(|p| Some((p.name.as_str(), layer(p)?))).collect();
    let mut findings = names::unknown(&names::Crates::of(&metadata.packages));
    findings.extend(unused::find(&metadata.packages)?);
    for package in &metadata.packages {
        let Some(mine) = layer(package) else {
            findings.push(format!("{}: no [package.metadata.oarlock] layer", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind != DependencyKind::Build) {
            let name = dependency.name.as_str();
            if let Some((_, owners)) = OWNERS.iter().find(|(third, _)| *third == name)
                && mine < 7
                && dependency.kind == DependencyKind::Normal
                && !owners.contains(&package.name.as_str())
            {
                findings.push(format!("{}: only {} may name {name}", package.name, owners.join(", ")));
            }
            let Some(theirs) = layers.get(name) else { continue };
            if dependency.kind == DependencyKind::Development && *theirs <= 1 {
                continue; // tests of any layer may use the test kit and plain libraries
            }
            if !allowed(&package.name, mine, name, *theirs) {
                findings.push(format!("{} (layer {mine}) must not depend on {name} (layer {theirs})", package.name));
            }
        }
    }
    if !findings.is_empty() {
        bail!("layers:\n  {}", findings.join("\n  "));
    }
    say(&format!("layers: {} crates point downwards", metadata.packages.len()));
    Ok(())
}

fn layer(package: &Package) -> Option<u64> {
    package.metadata.get("oarlock")?.get("layer")?.as_u64()
}

fn allowed(from: &str, mine: u64, to: &str, theirs: u64) -> bool {
    let short = |name: &str| name.trim_start_matches("oarlock-").to_owned();
    let (from, to) = (short(from), short(to));
    if CLIENT_SIDE.contains(&from.as_str()) && SERVER_SIDE.contains(&to.as_str()) {
        return false;
    }
    match (mine, theirs) {
        (0, 0) => to == "seeded-bug",
        (1, 1) => position(&to) < position(&from),
        (2, 2) => from == "mesh" && to == "runtime",
        (4, 4) => SERVER_SIDE.contains(&from.as_str()) && SERVER_SIDE.contains(&to.as_str()) && to == "registry",
        (6, 6) => from == "oarlock",
        (7, 7) => true,
        _ => theirs < mine,
    }
}

fn position(lib: &str) -> usize {
    LIBS.iter().position(|l| *l == lib).unwrap_or(usize::MAX)
}

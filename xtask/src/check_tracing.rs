//! `cargo xtask check-tracing`: rules of docs/adr/0007-traces.md that no compiler knows. One version of each OpenTelemetry crate, because spans of two versions do not find each other; no causes between
//! spans that viewers do not show; and the lint against a span guard that is held across an await, which would put the work of other tasks into the span.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::tool::{root, rust_files, say};

/// The method of `tracing::Span` that gives a span a second cause. OpenTelemetry knows it as a link, most viewers do not show it, and it keeps the cause open.
const SECOND_CAUSE: &str = concat!("follows", "_from");
/// The types of span guards, for the lint `await_holding_invalid_type`.
const GUARDS: [&str; 3] =
    ["tracing::span::Entered", "tracing::span::EnteredSpan", "opentelemetry::context::ContextGuard"];

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// Checks lock file, sources and settings of clippy.
pub(crate) fn run() -> anyhow::Result<()> {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).with_context(|| name.to_owned());
    let mut findings = versions(&read("Cargo.lock")?)?;
    findings.extend(guards(&read("clippy.toml")?, &read("Cargo.toml")?)?);
    for file in rust_files()? {
        let text = std::fs::read_to_string(root().join(&file))?;
        let lines = second_causes(&text).into_iter();
        findings.extend(lines.map(|line| format!("{}:{line}: {SECOND_CAUSE}; use a link of the span", file.display())));
    }
    if !findings.is_empty() {
        bail!("tracing:\n  {}", findings.join("\n  "));
    }
    say("tracing: one OpenTelemetry, no second causes, guards are linted");
    Ok(())
}

/// Finds OpenTelemetry crates that the lock file has in several versions.
fn versions(lock: &str) -> anyhow::Result<Vec<String>> {
    let lock: Lock = toml::from_str(lock).context("Cargo.lock")?;
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock.package.into_iter().filter(|package| package.name.contains("opentelemetry")) {
        found.entry(package.name).or_default().insert(package.version);
    }
    let several = found.into_iter().filter(|(_, versions)| versions.len() > 1);
    Ok(several
        .map(|(name, versions)| {
            format!("Cargo.lock: {name} {}", versions.into_iter().collect::<Vec<_>>().join(" and "))
        })
        .collect())
}

/// Returns the numbers of the lines that give a span a second cause.
fn second_causes(text: &str) -> Vec<usize> {
    text.lines().enumerate().filter(|(_, line)| line.contains(SECOND_CAUSE)).map(|(index, _)| index + 1).collect()
}

/// Finds guards that clippy would let pass.
fn guards(clippy: &str, workspace: &str) -> anyhow::Result<Vec<String>> {
    let clippy: toml::Table = toml::from_str(clippy).context("clippy.toml")?;
    let types = clippy.get("await-holding-invalid-types").and_then(|types| types.as_array());
    let named: Vec<&str> = types
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.as_str().or_else(|| entry.get("path")?.as_str()))
        .collect();
    let missing = GUARDS.iter().filter(|guard| !named.contains(guard));
    let mut findings: Vec<String> =
        missing.map(|guard| format!("clippy.toml: await-holding-invalid-types lacks {guard}")).collect();
    let workspace: toml::Table = toml::from_str(workspace).context("Cargo.toml")?;
    let level = ["workspace", "lints", "clippy", "await_holding_invalid_type"]
        .iter()
        .try_fold(&toml::Value::Table(workspace), |table, key| table.get(key))
        .and_then(|level| level.as_str().map(str::to_owned));
    if level.as_deref() != Some("deny") {
        findings.push("Cargo.toml: await_holding_invalid_type is not denied".to_owned());
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_versions_of_a_crate_are_found() {
        let package = |name: &str, version: &str| format!("[[package]]\nname = {name:?}\nversion = {version:?}\n");
        let one = [
            package("opentelemetry", "0.33.1"),
            package("opentelemetry_sdk", "0.33.0"),
            package("rand", "0.9.0"),
            package("rand", "0.8.0"),
        ];
        assert_eq!(versions(&one.concat()).unwrap(), [""; 0]);
        let two = [one.concat(), package("opentelemetry", "0.32.0")].concat();
        assert_eq!(versions(&two).unwrap(), ["Cargo.lock: opentelemetry 0.32.0 and 0.33.1"]);
    }

    #[test]
    fn second_causes_are_found_by_line() {
        let text = format!("let span = root();\nspan.{SECOND_CAUSE}(other);\n");
        assert_eq!((second_causes(&text), second_causes("span.link(other)")), (vec![2], vec![]));
    }

    #[test]
    fn guards_that_the_lint_does_not_know_are_found() {
        let lint = "[workspace.lints.clippy]\nawait_holding_invalid_type = \"deny\"";
        let types = "await-holding-invalid-types = [\"tracing::span::Entered\", \"opentelemetry::context::ContextGuard\", { path = \"tracing::span::EnteredSpan\", reason = \"x\" }]";
        assert_eq!(guards(types, lint).unwrap(), [""; 0]);
        assert_eq!(guards("", lint).unwrap().len(), 3);
        assert_eq!(guards(types, "").unwrap().len(), 1);
        assert_eq!(guards(types, &lint.replace("deny", "allow")).unwrap().len(), 1);
    }
}

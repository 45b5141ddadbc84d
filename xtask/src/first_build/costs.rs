//! The processor time of each package of a build.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::tool::target;

/// Wraps the compiler for cargo; records the package and the output of `times` for each call.
const WRAPPER: &str = r#"#!/bin/sh
"$@"
status=$?
{ echo "$CARGO_PKG_NAME"; times; } >>"$OARLOCK_COSTS/$$"
exit $status
"#;
/// Packages that take less are one row together. Seconds.
const SMALL: f64 = 3.0;

fn folder() -> PathBuf {
    target().join("costs")
}

/// Lets a build with cargo write down what it takes; forgets earlier builds.
///
/// # Errors
/// When files cannot be written.
pub(super) fn watch(build: &mut Command) -> anyhow::Result<()> {
    if folder().exists() {
        fs::remove_dir_all(folder())?;
    }
    fs::create_dir_all(folder())?;
    let program = target().join("rustc-costs");
    fs::write(&program, WRAPPER).with_context(|| program.display().to_string())?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    build.env("RUSTC_WRAPPER", program).env("OARLOCK_COSTS", folder());
    Ok(())
}

/// A table of what the compiler took for each package, and of what the whole build took beyond that.
///
/// # Errors
/// When what was written down cannot be read.
pub(super) fn table(whole: f64) -> anyhow::Result<String> {
    let mut costs = BTreeMap::new();
    for file in fs::read_dir(folder())? {
        let text = fs::read_to_string(file?.path())?;
        add(&mut costs, &text).with_context(|| text.clone())?;
    }
    Ok(render(&costs, whole))
}

/// Adds what one process wrote: a package, the times of the shell, and the times of the compiler; more than once where the number of a process came again.
fn add(costs: &mut BTreeMap<String, f64>, text: &str) -> Option<()> {
    let mut lines = text.lines();
    while let Some(package) = lines.next() {
        let (_shell, compiler) = (lines.next()?, lines.next()?);
        let seconds = compiler.split_whitespace().map(seconds).sum::<Option<f64>>()?;
        // Cargo asks the compiler for its version, for no package.
        let package = if package.is_empty() { "cargo's questions" } else { package };
        *costs.entry(package.to_owned()).or_default() += seconds;
    }
    Some(())
}

/// Parses `1m2.5s`; returns seconds.
fn seconds(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
}

fn render(costs: &BTreeMap<String, f64>, whole: f64) -> String {
    let (mut large, small): (Vec<_>, Vec<_>) = costs.iter().partition(|(_, seconds)| **seconds >= SMALL);
    large.sort_by(|a, b| b.1.total_cmp(a.1));
    let sum = |own: bool| -> f64 {
        costs.iter().filter(|(name, _)| name.starts_with("oarlock") == own).map(|(_, seconds)| seconds).sum()
    };
    let row = |name: &str, seconds: f64| format!("| {name} | {seconds:.1} |\n");
    let mut table = "| package | CPU seconds |\n|---|---:|\n".to_owned();
    table += &row("**all**", whole);
    table += &row("**our own**", sum(true));
    table += &row("**third-party**", sum(false));
    table += &row("**build scripts, C, cargo itself**", whole - sum(true) - sum(false));
    table.extend(large.iter().map(|(name, seconds)| row(name, **seconds)));
    table + &row(&format!("{} smaller ones", small.len()), small.iter().map(|(_, seconds)| *seconds).sum())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{add, render};

    #[test]
    fn a_package_costs_what_all_its_compilers_took() {
        let mut costs = BTreeMap::new();
        let shell = "0m0.000000s 0m0.010000s";
        add(&mut costs, &format!("ring\n{shell}\n0m1.500000s 0m0.250000s\n")).unwrap();
        add(&mut costs, &format!("ring\n{shell}\n1m2.00s 0m0.00s\noarlock-bus\n{shell}\n0m8.0s 0m1.0s\n")).unwrap();
        add(&mut costs, &format!("itoa\n{shell}\n0m0.5s 0m0.0s\n")).unwrap();
        assert!(add(&mut costs, &format!("ring\n{shell}\n")).is_none());
        let table = render(&costs, 80.0);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let expected = [
            "| **all** | 80.0 |",
            "| **our own** | 9.0 |",
            "| **third-party** | 64.2 |",
            "| **build scripts, C, cargo itself** | 6.8 |",
            "| ring | 63.8 |",
            "| oarlock-bus | 9.0 |",
            "| 1 smaller ones | 0.5 |",
        ];
        assert_eq!(rows, expected);
    }
}

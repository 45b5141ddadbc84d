//! `cargo xtask check-tests`: checks that every test is compiled. Cargo silently leaves out a file beside `tests/all.rs` that no `mod` names, and unit tests of a target with
//! `test = false`.

use anyhow::{Context, bail};
use cargo_metadata::{MetadataCommand, Package};

use crate::tool::{root, rust_files, say};

/// Checks every package and fails with all findings.
pub(crate) fn run() -> anyhow::Result<()> {
    let packages = MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata")?.packages;
    let files = rust_files()?;
    let mut findings = Vec::new();
    for package in &packages {
        let folder = package.manifest_path.parent().context("a package without a folder")?;
        let named = |name: &str| package.targets.iter().any(|target| target.is_test() && target.name == name);
        let all = std::fs::read_to_string(folder.join("tests/all.rs")).unwrap_or_default();
        let own = files.iter().filter_map(|file| Some((file, root().join(file).strip_prefix(folder).ok()?.to_owned())));
        for (file, place) in own {
            let name = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if place.parent().is_some_and(|parent| parent == "tests") {
                let module = all.lines().any(|line| line.trim_end_matches(';').ends_with(&format!("mod {name}")));
                if !module && !named(&name) {
                    findings.push(format!("{}: neither a module of tests/all.rs nor a [[test]]", file.display()));
                }
            }
            if place.starts_with("src") && !has_unit_tests(package) {
                let text = std::fs::read_to_string(root().join(file))?;
                if text.contains("#[test]") || text.contains("#[tokio::test") {
                    findings.push(format!("{}: a test in a package with test = false", file.display()));
                }
            }
        }
    }
    if !findings.is_empty() {
        bail!("tests that are not compiled:\n  {}", findings.join("\n  "));
    }
    say("tests: every file is compiled");
    Ok(())
}

/// Whether some library or program of the package is compiled with its tests.
fn has_unit_tests(package: &Package) -> bool {
    package.targets.iter().any(|target| (target.is_lib() || target.is_bin()) && target.test)
}

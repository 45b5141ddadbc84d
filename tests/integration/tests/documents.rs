//! What documents tell a reader to run: every command for our program, for compose and for cargo is one that these take. The chores and the load tests check
//! their own commands (`xtask/src/documents.rs`, `loadtests/src/args.rs`). The README's first steps are run ([`readme`]).

mod readme;

use std::path::{Path, PathBuf};
use std::process::Command;

use oarlock_testkit::documents::{Shown, commands};
use serde_norway::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the words after `flag` in a command.
fn after<'a>(words: &'a [String], flag: &'a str) -> impl Iterator<Item = &'a str> {
    words.windows(2).filter(move |pair| pair[0] == flag).map(|pair| pair[1].as_str())
}

/// Asks for help with the command's own flags: an unknown subcommand, flag or choice is an error before help is shown.
#[test]
fn our_program_takes_every_command() {
    let by_cargo = commands(&["cargo", "run"]).into_iter().filter(|shown| after(&shown.words, "-p").next().is_none());
    let by_cargo = by_cargo.filter_map(|Shown { place, mut words }| {
        let start = words.iter().position(|word| word == "--")? + 1;
        Some(Shown { place, words: words.split_off(start) })
    });
    let by_name =
        commands(&["oarlock"]).into_iter().map(|Shown { place, words }| Shown { place, words: words[1..].to_vec() });
    for Shown { place, words } in by_cargo.chain(by_name) {
        let output = Command::new(oarlock_testkit::oarlock()).args(&words).arg("--help").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{place}: oarlock {words:?}: {text}");
    }
}

#[test]
fn compose_has_every_profile_and_service() {
    let file = std::fs::read_to_string(root().join("compose.yaml")).unwrap();
    let mut file: Value = serde_norway::from_str(&file).unwrap();
    file.apply_merge().unwrap();
    let services = file["services"].as_mapping().unwrap();
    let profiles: Vec<&Value> =
        services.values().filter_map(|service| service["profiles"].as_sequence()).flatten().collect();
    for Shown { place, words } in commands(&["docker", "compose"]) {
        for profile in after(&words, "--profile") {
            let known = profile == "*" || profiles.iter().any(|known| known.as_str() == Some(profile));
            assert!(known, "{place}: no profile {profile}");
        }
        let scaled = after(&words, "--scale").filter_map(|scale| scale.split('=').next());
        let copied = after(&words, "cp").filter_map(|from| from.split_once(':')).map(|(service, _)| service);
        for service in scaled.chain(copied).chain(after(&words, "exec")) {
            assert!(services.contains_key(service), "{place}: no service {service}");
        }
    }
}

#[test]
fn the_workspace_has_every_package_and_profile() {
    let mut metadata = oarlock_testkit::cargo();
    let metadata = metadata.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages: Vec<&str> =
        metadata["packages"].as_array().unwrap().iter().map(|package| package["name"].as_str().unwrap()).collect();
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for Shown { place, words } in commands(&["cargo"]) {
        let own = words.split(|word| word == "--").next().unwrap();
        for package in after(own, "-p") {
            assert!(packages.contains(&package), "{place}: no package {package}");
        }
        for profile in after(own, "--profile") {
            assert!(manifest.contains(&format!("\n[profile.{profile}]\n")), "{place}: no profile {profile}");
        }
    }
    assert!(!commands(&[".ci/run"]).is_empty() && root().join(".ci/run").is_file());
}

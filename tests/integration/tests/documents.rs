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

/// Returns why our program does not take these words. It is asked for help with the command's own flags: an unknown subcommand, flag or choice is an error before help is shown.
fn refusal(words: &[String]) -> Option<String> {
    let output = Command::new(oarlock_testkit::oarlock()).args(words).arg("--help").output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the words of a line.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

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
        if let Some(why) = refusal(&words) {
            panic!("{place}: oarlock {words:?}: {why}");
        }
    }
}

#[test]
fn what_our_program_does_not_take_is_found() {
    for line in ["up --no-such-flag", "no-such-command", "up --tracing no-such-state", "trace"] {
        assert_eq!(refusal(&words(line)).is_some(), line != "trace", "{line}");
    }
}

/// The services and profiles of compose.yaml.
struct Compose(Value);

impl Compose {
    fn read() -> Self {
        let file = std::fs::read_to_string(root().join("compose.yaml")).unwrap();
        let mut file: Value = serde_norway::from_str(&file).unwrap();
        file.apply_merge().unwrap();
        Self(file)
    }

    /// Returns the profiles and services in a command that the file has not.
    fn unknown(&self, words: &[String]) -> Vec<String> {
        let services = self.0["services"].as_mapping().unwrap();
        let profiles: Vec<&Value> =
            services.values().filter_map(|service| service["profiles"].as_sequence()).flatten().collect();
        let has_profile = |name: &str| name == "*" || profiles.iter().any(|known| known.as_str() == Some(name));
        let scaled = after(words, "--scale").filter_map(|scale| scale.split('=').next());
        let copied = after(words, "cp").filter_map(|from| from.split_once(':')).map(|(service, _)| service);
        let named = scaled.chain(copied).chain(after(words, "exec"));
        let unknown = after(words, "--profile").filter(|profile: &&str| !has_profile(profile));
        unknown.chain(named.filter(|service| !services.contains_key(service))).map(str::to_owned).collect()
    }
}

#[test]
fn compose_has_every_profile_and_service() {
    let compose = Compose::read();
    for Shown { place, words } in commands(&["docker", "compose"]) {
        assert_eq!(compose.unknown(&words), [""; 0], "{place}");
    }
}

#[test]
fn what_compose_has_not_is_found() {
    let compose = Compose::read();
    for (line, unknown) in [
        ("docker compose --profile none up", "none"),
        ("docker compose up --scale none=2", "none"),
        ("docker compose cp none:/a b", "none"),
        ("docker compose exec none sh", "none"),
    ] {
        assert_eq!(compose.unknown(&words(line)), [unknown], "{line}");
    }
}

/// The packages and profiles of the workspace.
struct Workspace {
    packages: Vec<String>,
    manifest: String,
}

impl Workspace {
    fn read() -> Self {
        let mut metadata = oarlock_testkit::cargo();
        let metadata = metadata.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).output().unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let packages = packages.map(|package| package["name"].as_str().unwrap().to_owned()).collect();
        Self { packages, manifest: std::fs::read_to_string(root().join("Cargo.toml")).unwrap() }
    }

    /// Returns the packages and profiles in cargo's own arguments that the workspace has not.
    fn unknown(&self, words: &[String]) -> Vec<String> {
        let own = words.split(|word| word == "--").next().unwrap();
        let packages = after(own, "-p").filter(|name| !self.packages.iter().any(|known| known == name));
        let profiles = after(own, "--profile").filter(|name| !self.manifest.contains(&format!("\n[profile.{name}]\n")));
        packages.chain(profiles).map(str::to_owned).collect()
    }
}

#[test]
fn the_workspace_has_every_package_and_profile() {
    let workspace = Workspace::read();
    for Shown { place, words } in commands(&["cargo"]) {
        assert_eq!(workspace.unknown(&words), [""; 0], "{place}");
    }
    assert!(!commands(&[".ci/run"]).is_empty() && root().join(".ci/run").is_file());
}

#[test]
fn what_the_workspace_has_not_is_found() {
    let unknown = Workspace::read().unknown(&words("cargo run -p no-package --profile no-profile -- -p other"));
    assert_eq!(unknown, ["no-package", "no-profile"]);
}

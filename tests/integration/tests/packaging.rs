//! What the Debian package installs: systemd units, their configuration and cargo-deb's table in the manifest. `cargo xtask package` builds the package and installs, runs and
//! purges it.

mod started;
mod unit;

use std::process::Command;

use oarlock_runtime::shutdown::Graces;
use oarlock_service_apiserver::ShutdownOptions;
use oarlock_testkit::oarlock;
use serde_json::Value;

use super::documents::{refusal, root};
use unit::Unit;

/// Directives that give a unit a mount namespace of its own. Volumes that a kubelet mounts there would not reach containers.
const OWN_MOUNTS: [&str; 18] = [
    "BindPaths",
    "BindReadOnlyPaths",
    "DynamicUser",
    "InaccessiblePaths",
    "MountFlags",
    "NoExecPaths",
    "PrivateDevices",
    "PrivateMounts",
    "PrivateTmp",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "ReadOnlyPaths",
    "TemporaryFileSystem",
];

/// Returns systemd's complaints about a unit; `None`, with a printed skip, without systemd.
fn complaints(text: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("oarlock-unit.service");
    // systemd looks for the program too.
    std::fs::write(&file, text.replace(unit::PROGRAM, oarlock().to_str().unwrap())).unwrap();
    let Ok(ran) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
        oarlock_testkit::skipped!("systemd-analyze is not on the PATH");
        return None;
    };
    let said = String::from_utf8_lossy(&ran.stderr);
    // The units of this machine are read too, and are not of interest.
    Some(said.lines().filter(|line| line.contains("oarlock-unit")).collect::<Vec<_>>().join("\n"))
}

/// The package has no unit for the tunnel's agent, which few hosts need.
#[test]
fn the_documented_unit_of_the_tunnels_agent_is_one_that_systemd_and_our_program_take() {
    let document = std::fs::read_to_string(root().join("docs/operations/tunnel.md")).unwrap();
    let unit = document.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")?.strip_prefix(unit::PROGRAM)).unwrap();
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    assert!(words.iter().any(|word| word == "--sync-forever"), "{command}");
    assert_eq!(refusal(&words), None);
    let Some(complaints) = complaints(unit) else { return };
    assert_eq!(complaints, "");
}

#[test]
fn systemd_has_no_complaint_about_the_units() {
    for unit in Unit::all() {
        let Some(complaints) = complaints(&unit.text) else { return };
        assert_eq!(complaints, "", "{}", unit.name);
    }
}

#[test]
fn systemd_complains_about_wrong_units() {
    let text = &Unit::named("oarlock-control-plane").text;
    for (right, wrong, complaint) in [
        ("ProtectSystem=strict", "ProtectSystem=strickt", "Failed to parse protect system value"),
        ("NoNewPrivileges=", "NoNewPrivilegs=", "Unknown key 'NoNewPrivilegs'"),
        ("ExecStart=/usr/bin/", "ExecStart=/nowhere/", "/nowhere/oarlock is not executable"),
    ] {
        assert!(text.contains(right), "{right}");
        let Some(complaints) = complaints(&text.replace(right, wrong)) else { return };
        assert!(complaints.contains(complaint), "{wrong}: {complaints}");
    }
}

#[test]
fn our_program_takes_the_command_of_each_unit() {
    for unit in Unit::all() {
        let command = unit.command();
        let (program, words) = command.split_first().unwrap();
        assert_eq!(program, unit::PROGRAM);
        assert_eq!(refusal(words), None, "{}: {words:?}", unit.name);
        // A variable that no file sets is an empty argument or none.
        assert!(!command.iter().any(|word| word.contains('$')), "{command:?}");
    }
}

#[test]
fn an_orderly_shutdown_ends_before_systemd_kills() {
    for (name, longest) in [
        ("oarlock-control-plane", ShutdownOptions::default().graces().longest()),
        ("oarlock-kubelet", Graces::default().longest()),
    ] {
        let limit = Unit::named(name).span("TimeoutStopSec");
        assert!(limit >= longest, "{name}: {limit:?} of {longest:?}");
    }
}

#[test]
fn units_have_only_the_rights_that_they_need() {
    for unit in Unit::all() {
        let name = &unit.name;
        assert_eq!(unit.value("Type"), Some("notify"), "{name}");
        assert_eq!(unit.value("Restart"), Some("always"), "{name}");
        for key in
            ["NoNewPrivileges", "LockPersonality", "MemoryDenyWriteExecute", "RestrictNamespaces", "RestrictRealtime"]
        {
            assert_eq!(unit.value(key), Some("yes"), "{name}: {key}");
        }
        assert_eq!(unit.value("SystemCallArchitectures"), Some("native"), "{name}");
        assert!(unit.value("SystemCallFilter").is_some(), "{name}");
        let capabilities = unit.value("CapabilityBoundingSet").unwrap_or_else(|| panic!("{name}: all capabilities"));
        if name == "oarlock-kubelet" {
            assert!(!capabilities.starts_with('~'), "capabilities are listed, not left out");
            assert_eq!(unit.value("User"), None, "mounts and cgroups need root");
            for key in OWN_MOUNTS {
                assert_eq!(unit.value(key), None, "{key}");
            }
        } else {
            assert_eq!(capabilities, "", "{name}");
            assert!(unit.value("User").is_some_and(|user| user != "root"), "{name}");
            assert_eq!(unit.value("ProtectSystem"), Some("strict"), "{name}");
        }
        let folder = format!("/var/lib/{}", unit.value("StateDirectory").unwrap());
        assert!(unit.command().contains(&folder), "{name}: the state is elsewhere");
    }
}

/// Returns cargo-deb's table in the manifest of the executable.
fn table() -> Value {
    let mut metadata = oarlock_testkit::cargo();
    let metadata = metadata.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).output().unwrap();
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().find(|package| package["name"] == "oarlock").unwrap()["metadata"]["deb"].clone()
}

#[test]
fn the_package_has_every_file_of_the_folder_packaging() {
    let table = table();
    let manifest = root().join("services/oarlock");
    let assets: Vec<(&str, &str)> = table["assets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| (asset[0].as_str().unwrap(), asset[1].as_str().unwrap()))
        .collect();
    for (source, _) in assets.iter().filter(|(source, _)| !source.starts_with("target/")) {
        assert!(manifest.join(source).is_file(), "{source}");
    }
    for unit in Unit::all() {
        let units = table["systemd-units"].as_array().unwrap();
        let row = units.iter().find(|row| row["unit-name"] == *unit.name).unwrap_or_else(|| panic!("{}", unit.name));
        assert_eq!((&row["enable"], &row["start"]), (&false.into(), &false.into()), "the owner of a host decides");
        let file = unit.value("EnvironmentFile").unwrap();
        assert!(table["conf-files"].as_array().unwrap().contains(&file.into()), "an upgrade replaces {file}");
        let source = format!("../../packaging/etc/{}", file.strip_prefix("/etc/oarlock/").unwrap());
        assert!(assets.contains(&(source.as_str(), "etc/oarlock/")), "{file} is no file of the package");
    }
}

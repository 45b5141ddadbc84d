//! client-go as a foreign client, over TLS with the kubeconfig: informers (WatchList first, as since 1.35), also when the history is compacted,
//! protobuf, conflicts; and a controller written with controller-runtime.

use std::process::Command;

use oarlock_testkit::Cluster;
use tempfile::TempDir;

/// Builds a program of `tests/integration/go`. `None` when nothing can be shown: only a machine without Go, or without the modules and a way to
/// them, is excused; a program that does not compile is not. Listed in docs/operations/tests.md.
fn build(package: &str) -> Option<TempDir> {
    let skip = |why: &str| oarlock_testkit::skipped!("{why}: {package} was not tried");
    let Some(go) = oarlock_testkit::go() else {
        skip("no go");
        return None;
    };
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&go);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go")).env("GOFLAGS", "-mod=readonly").args(arguments);
        command.output().unwrap()
    };
    let modules = run(&["mod", "download"]);
    if !modules.status.success() {
        skip(&format!("no Go modules: {}", String::from_utf8_lossy(&modules.stderr).trim()));
        return None;
    }
    let built = run(&["build", "-o", place.path().join("client").to_str().unwrap(), package]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(place)
}

/// Runs the program against the cluster; its output must be "ok".
fn run(program: &TempDir, cluster: &Cluster) {
    let mut command = Command::new(program.path().join("client"));
    let ran = command.env("KUBECONFIG", cluster.kubeconfig()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    eprintln!("{said}");
    assert!(ran.status.success() && said.lines().any(|line| line == "ok"), "{said}");
}

#[test]
fn client_go_finds_what_it_expects() {
    let Some(program) = build(".") else { return };
    run(&program, &Cluster::up(crate::watch::TINY_WINDOW));
}

#[test]
fn a_controller_of_controller_runtime_works() {
    let Some(program) = build("./controller") else { return };
    run(&program, &Cluster::up(&["--ephemeral"]));
}

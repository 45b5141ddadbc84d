//! client-go as a foreign client, over TLS with the kubeconfig: informers (WatchList first, as since 1.35), also over a history that
//! is gone, protobuf, conflicts.

use std::process::Command;

use oarlock_testkit::Cluster;

/// Why nothing was shown, when nothing was. Printed, and listed in docs/operations/tests.md.
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}: client-go was not tried");
}

#[test]
fn client_go_finds_what_it_expects() {
    let Some(go) = oarlock_testkit::go() else { return skip("no go") };
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/go");
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("client");
    let build = |arguments: &[&str]| {
        let mut command = Command::new(&go);
        command.current_dir(sources).env("GOFLAGS", "-mod=readonly").args(arguments);
        command.output().unwrap()
    };
    // Only a machine without the modules and without a way to them is excused; a program that does not compile is not.
    let modules = build(&["mod", "download"]);
    if !modules.status.success() {
        return skip(&format!("no Go modules: {}", String::from_utf8_lossy(&modules.stderr).trim()));
    }
    let built = build(&["build", "-o", program.to_str().unwrap(), "."]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let cluster = Cluster::up(crate::watch::TINY_WINDOW);
    let ran = Command::new(program).env("KUBECONFIG", cluster.kubeconfig()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    eprintln!("{said}");
    assert!(ran.status.success() && said.contains("\nok\n"), "{said}");
}

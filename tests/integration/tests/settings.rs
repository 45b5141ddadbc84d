//! The suite of lists and watches again, with settings of the server that must not change any answer.

use std::process::Command;

use oarlock_testkit::FLAGS_VARIABLE;

/// Runs tests of this binary again, with further flags for every server that they start.
fn again(tests: &[&str], flags: &str) {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).args(tests).env(FLAGS_VARIABLE, flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "with {flags}:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("running 0 tests"), "{tests:?} are none");
}

#[test]
fn everything_is_the_same_when_bodies_rest_and_half_are_forgotten() {
    again(&["watch::", "kube_rs::", "transcript::", "exchange::"], "--cache-memory 1048576 --cache-forget");
}

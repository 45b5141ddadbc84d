//! Tests with a process of their own: a process starts to trace once, with one setting, and its memory of spans is shared by all that runs in it.

use std::process::Command;

/// Names the test that runs in a process of its own.
const ALONE: &str = "OARLOCK_TEST_ALONE";

/// Runs the body of the test of this name, by the path that the test harness knows, in a new process of this executable.
pub(super) fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|alone| alone == name) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact", "--nocapture"]).env(ALONE, name).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{out}");
    assert!(output.status.success(), "{out}{error}");
    assert!(out.contains("test result: ok. 1 passed"), "no test is called {name}: {out}");
}

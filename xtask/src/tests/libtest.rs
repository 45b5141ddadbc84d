//! Runs Rust's test harness, and parses its output.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;

use crate::tool::{now, say};

/// Number of lines of a failed test's message that are shown in the summary.
const LINES: usize = 8;
/// Time without a finished test after which a process is ended, because it would block the whole run.
const STANDSTILL: Duration = Duration::from_secs(20 * 60);

/// The results of the tests of one process.
pub(super) struct Ran {
    /// The tests that did not pass: failed, or not run because the process ended before.
    pub(super) failed: BTreeSet<String>,
    /// The duration of each finished test, in seconds.
    pub(super) took: Vec<(String, f64)>,
    /// Everything that the process printed.
    pub(super) text: String,
}

/// Runs these tests in one process, one after the other, so that the time between two lines is the time of one test.
///
/// # Errors
/// When the process cannot be started.
pub(super) fn run(command: &mut Command, tests: &[String]) -> anyhow::Result<Ran> {
    command.args(["--test-threads", "1", "--exact"]).args(tests);
    // A file, since processes that a test leaves behind would hold a pipe open.
    let errors = tempfile::NamedTempFile::new()?;
    command.stdout(Stdio::piped()).stderr(errors.reopen()?);
    let mut child = command.spawn().with_context(|| format!("{command:?}: not started"))?;
    let out = child.stdout.take().context("it has an output")?;
    let (mut text, mut took) = (String::new(), Vec::new());
    let (sender, lines) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let read = BufReader::new(out).split(b'\n').map_while(Result::ok);
            read.map(|line| String::from_utf8_lossy(&line).into_owned()).for_each(|line| {
                let _nobody_listens_after_a_standstill = sender.send(line);
            });
        });
        let mut last = now();
        loop {
            match lines.recv_timeout(STANDSTILL) {
                Ok(line) => {
                    if let Some(test) = verdict(&line) {
                        took.push((test.to_owned(), last.elapsed().as_secs_f64()));
                        last = now();
                    }
                    text += &line;
                    text.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => {
                    let stands = format!("no test has ended for {STANDSTILL:?}: the process is killed");
                    say(&stands);
                    text += &stands;
                    child.kill().context("SIGKILL")?;
                }
                Err(RecvTimeoutError::Disconnected) => return anyhow::Ok(()),
            }
        }
    })?;
    let failed = not_passed(tests, child.wait()?.success(), &text);
    text += &String::from_utf8_lossy(&fs::read(errors.path())?);
    Ok(Ran { failed, took, text })
}

/// Returns the test whose result a line reports.
fn verdict(line: &str) -> Option<&str> {
    let (test, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // The output of child processes may stand between the test's name and its result.
    (verdict.ends_with("ok") || verdict.ends_with("FAILED")).then_some(test)
}

/// Returns the tests that did not pass: those that the harness lists, and those that it did not run. Returns all tests when a process succeeded
/// without having run each, and when it failed without naming any.
fn not_passed(tests: &[String], success: bool, text: &str) -> BTreeSet<String> {
    if success && text.contains(&format!("\ntest result: ok. {} passed;", tests.len())) {
        return BTreeSet::new();
    }
    let failed: BTreeSet<String> = if text.contains("\ntest result: FAILED.") {
        let list = text.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
        list.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
    } else {
        let passed: BTreeSet<&str> = text.lines().filter(|line| line.ends_with("ok")).filter_map(verdict).collect();
        tests.iter().filter(|test| !passed.contains(test.as_str())).cloned().collect()
    };
    if failed.is_empty() { tests.iter().cloned().collect() } else { failed }
}

/// Each panic of each failed test: its place and the begin of its message, without what processes printed and without backtraces.
pub(super) fn panics(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut test = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        test = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")).or(test);
        // thread 'name' (number) panicked at file:line:column:
        let place = line.strip_prefix("thread '").and_then(|rest| rest.split_once(" panicked at "));
        let (Some(test), Some((_, place))) = (test, place) else { continue };
        let message = std::iter::from_fn(|| lines.next_if(|line| !ends(line))).take(LINES);
        found.push(message.fold(format!("{test}: {place}"), |shown, line| shown + "\n    " + line));
    }
    found
}

/// Whether a message is over before this line.
fn ends(line: &str) -> bool {
    ["stack backtrace:", "note: ", "---- ", "thread '"].iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{not_passed, panics, verdict};

    #[test]
    fn each_panic_of_a_failed_test_is_shown_without_what_surrounds_it() {
        let output = "test a ... ok\n\nfailures:\n\n---- b::c stdout ----\nserver: thread of mine\n\n\
            thread 'b::c' (7) panicked at src/b.rs:1:2:\nassertion failed: not\nleft: 1\nstack backtrace:\n   0: begin\n\n\
            thread 'users' panicked at src/u.rs:3:4:\ngone\nnote: run with more\n---- d stdout ----\nError: none\n\n\
            failures:\n    b::c\n    d\n";
        assert_eq!(
            panics(output),
            ["b::c: src/b.rs:1:2:\n    assertion failed: not\n    left: 1", "b::c: src/u.rs:3:4:\n    gone"]
        );
    }

    #[test]
    fn a_test_that_was_not_seen_to_pass_has_failed() {
        assert_eq!(verdict("test a::b ... ok"), Some("a::b"));
        assert_eq!(verdict("test a::b ... said by a child\u{1b}[0mok"), Some("a::b"));
        assert_eq!(verdict("test a::b ... ignored, prints a figure"), None);
        assert_eq!(verdict("test result: ok. 1 passed; 0 failed"), None);
        let tests = ["a", "b", "c", "d"].map(str::to_owned);
        let text = "test a ... ok\ntest b ... FAILED\ntest c ... \nprocess aborted";
        assert_eq!(not_passed(&tests, false, text), ["b", "c", "d"].map(str::to_owned).into());
        let text =
            "test a ... said by\na child ok\n\nfailures:\n\nfailures:\n    b\n    d\n\ntest result: FAILED. 2 passed\n";
        assert_eq!(not_passed(&tests, false, text), ["b", "d"].map(str::to_owned).into());
        let all = BTreeSet::from(tests.clone());
        let text =
            "test a ... ok\ntest b ... ok\ntest c ... ok\ntest d ... ok\n\ntest result: ok. 4 passed; 0 failed\n";
        assert!(not_passed(&tests, true, text).is_empty());
        assert_eq!(not_passed(&tests, false, text), all, "it failed after its last test");
        assert_eq!(not_passed(&tests, true, "\ntest result: ok. 0 passed; 0 failed\n"), all, "no test has these names");
    }
}

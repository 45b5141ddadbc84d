//! Why tests failed, picked out of what Rust's test harness prints.

/// How many lines of a message are told.
const LINES: usize = 8;

/// Each panic of each failed test: where it was, and the begin of its message, without what processes said and without backtraces.
pub(super) fn of(output: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut test = None;
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        test = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")).or(test);
        // thread 'name' (number) panicked at file:line:column:
        let place = line.strip_prefix("thread '").and_then(|rest| rest.split_once(" panicked at "));
        let (Some(test), Some((_, place))) = (test, place) else { continue };
        let message = std::iter::from_fn(|| lines.next_if(|line| !ends(line))).take(LINES);
        found.push(message.fold(format!("{test}: {place}"), |told, line| told + "\n    " + line));
    }
    found
}

/// Whether a message is over before this line.
fn ends(line: &str) -> bool {
    ["stack backtrace:", "note: ", "---- ", "thread '"].iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_panic_of_a_failed_test_is_told_without_what_surrounds_it() {
        let output = "test a ... ok\n\nfailures:\n\n---- b::c stdout ----\nserver: thread of mine\n\n\
            thread 'b::c' (7) panicked at src/b.rs:1:2:\nassertion failed: not\nleft: 1\nstack backtrace:\n   0: begin\n\n\
            thread 'users' panicked at src/u.rs:3:4:\ngone\nnote: run with more\n---- d stdout ----\nError: none\n\n\
            failures:\n    b::c\n    d\n";
        assert_eq!(
            super::of(output),
            ["b::c: src/b.rs:1:2:\n    assertion failed: not\n    left: 1", "b::c: src/u.rs:3:4:\n    gone"]
        );
    }
}

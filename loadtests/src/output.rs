//! Output for the person or program that runs a load test.

/// Prints a line.
#[expect(clippy::print_stdout, reason = "results go to the person or program that runs this")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

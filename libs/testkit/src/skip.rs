//! Reports tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;

/// Reports that the test is skipped, with the reason as `format!` arguments.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => { $crate::skip(&format!($($why)*)) };
}

/// Implementation of [`skipped!`](crate::skipped). The output of a passing test is not shown, so the reason is also appended to the file that `OARLOCK_SKIPPED` names.
///
/// # Panics
/// When the file cannot be written.
pub fn skip(why: &str) {
    // One line per report: a program's output may have several.
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("SKIPPED: {why}");
    let Some(file) = std::env::var_os("OARLOCK_SKIPPED") else { return };
    let line = format!("{}: {why}\n", thread::current().name().unwrap_or("a helper of a test"));
    let file = OpenOptions::new().create(true).append(true).open(file);
    file.expect("the file that OARLOCK_SKIPPED names").write_all(line.as_bytes()).expect("a line is written");
}

//! Tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;

/// Says that the test is left out, and why, in `format!`'s words.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => { $crate::skip(&format!($($why)*)) };
}

/// See [`skipped!`](crate::skipped). The output of a test that passes is seen by nobody, so a line goes to the file that `OARLOCK_SKIPPED` names, too.
///
/// # Panics
/// When that cannot be written.
pub fn skip(why: &str) {
    // A line for each: what a program has said may have more.
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("SKIPPED: {why}");
    let Some(file) = std::env::var_os("OARLOCK_SKIPPED") else { return };
    let line = format!("{}: {why}\n", thread::current().name().unwrap_or("a helper of a test"));
    let file = OpenOptions::new().create(true).append(true).open(file);
    file.expect("the file that OARLOCK_SKIPPED names").write_all(line.as_bytes()).expect("a line is written");
}

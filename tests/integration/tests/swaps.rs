//! Parts that swap with upstream's, both ways: whichever is in its place, a Deployment runs, scales, rolls and goes
//! away, and Jobs run to their ends.
//!
//! Upstream's programs are built from their Go modules by `cargo xtask peer`. What is known not to work stands in
//! docs/operations/swaps.md.

pub(crate) mod jobs;
mod ours;
pub(crate) mod story;
mod theirs;

use std::path::PathBuf;
use std::process::Command;

/// Upstream's programs of these names, or a loud word that nothing was shown. Listed in docs/operations/tests.md.
pub(crate) fn programs(names: &[&str]) -> Option<PathBuf> {
    oarlock_testkit::programs(names)
        .inspect_err(|why| oarlock_testkit::skipped!("{why}: nothing was tried with them"))
        .ok()
}

/// One of our own parts as a process.
fn oarlock(words: &[&str]) -> Command {
    let mut command = Command::new(oarlock_testkit::oarlock());
    command.args(words);
    command
}

/// Lines in which klog (`E…`) or our log (` ERROR `) says that something failed, but for those that hold an explained text.
pub(crate) fn unexplained(log: &str, explained: &[&str]) -> Vec<String> {
    let klog = |line: &str| {
        let mut chars = line.chars();
        matches!(chars.next(), Some('E' | 'F')) && chars.take(4).all(|c| c.is_ascii_digit())
    };
    let failed = |line: &&str| klog(line) || line.contains(" ERROR ");
    let known = |line: &&str| explained.iter().any(|text| line.contains(text));
    log.lines().filter(failed).filter(|line| !known(line)).map(str::to_owned).collect()
}

#[test]
fn only_errors_count_and_only_unexplained_ones() {
    let log = "I1121 fine\nE1121 known thing\nE1121 other\n2026 ERROR ours\nEnd";
    assert_eq!(unexplained(log, &["known"]), ["E1121 other", "2026 ERROR ours"]);
}

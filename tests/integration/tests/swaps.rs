//! Oarlock's parts in a control plane of upstream's, and upstream's in Oarlock's: with either part in place, a Deployment runs, scales, rolls and is
//! deleted, Jobs run to their ends, and StatefulSets and DaemonSets live their lives.
//!
//! Upstream's programs are built from their Go modules by `cargo xtask peer`. Known differences are listed in docs/operations/swaps.md.

pub(crate) mod daemons;
pub(crate) mod jobs;
mod moved;
mod ours;
pub(crate) mod sets;
pub(crate) mod story;
mod theirs;

use std::path::PathBuf;
use std::process::Command;

/// Returns the folder that holds these programs of upstream's; where the machine has none, the test is reported as skipped (docs/operations/tests.md lists
/// such tests).
pub(crate) fn programs(names: &[&str]) -> Option<PathBuf> {
    oarlock_testkit::programs(names)
        .inspect_err(|why| oarlock_testkit::skipped!("{why}: nothing was tried with them"))
        .ok()
}

/// Returns the command of one of Oarlock's parts.
fn oarlock(words: &[&str]) -> Command {
    let mut command = Command::new(oarlock_testkit::oarlock());
    command.args(words);
    command
}

/// Returns the lines in which klog (`E…`) or Oarlock's log (` ERROR `) reports an error, without those that contain an explained text.
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

//! A safety rule counts only when the suite can fail for it: each planted bug is switched on and its test must turn red.

use anyhow::bail;

use crate::tool::{capture, cargo, root, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this bug.
    #[arg(long)]
    only: Option<String>,
}

impl Args {
    /// Every bug.
    pub(crate) fn all() -> Self {
        Self { only: None }
    }
}

/// (name in `--cfg seeded_bug="…"`, package, test filter that must fail with it and pass without)
const BUGS: &[(&str, &str, &str)] = &[
    (
        "restart_before_termination",
        "oarlock-tests-sim",
        "an_actor_that_hangs_is_killed_and_replaced_only_after_its_termination",
    ),
    ("retry_unknown_write", "oarlock-client", "a_write_is_not_repeated_when_its_outcome_is_unknown_and_a_read_is"),
    (
        "relist_keeps_deleted",
        "oarlock-informer",
        "an_expired_revision_replaces_the_state_and_reports_what_went_missing",
    ),
    ("two_workers_one_key", "oarlock-informer", "at_most_so_many_workers_run_and_never_two_on_one_key"),
    ("own_writes_unseen", "oarlock-informer", "a_key_is_not_decided_again_before_its_own_writes_show"),
    ("answer_before_fsync", "oarlock-storage", "a_thousand_power_losses_lose_nothing_acknowledged"),
    ("read_undurable", "oarlock-store", "nobody_sees_a_write_before_it_is_durable"),
    ("watch_skips_event", "oarlock-store", "every_watcher_gets_what_a_naive_filter_gives_or_one_gone"),
    ("arbiter_trusts_shards", "oarlock-scheduler", "the_arbiter_accepts_exactly_what_the_oracle_allows"),
];

/// Switches on each bug in turn.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for (bug, package, test) in BUGS.iter().filter(|(bug, ..)| args.only.as_deref().is_none_or(|only| only == *bug)) {
        let (clean, text) = capture(&mut test_command(package, test, None)?)?;
        if !clean || !ran_a_test(&text) {
            bail!("{package} {test}: does not pass without the bug\n{text}");
        }
        let (passed, text) = capture(&mut test_command(package, test, Some(bug))?)?;
        let compiled = text.contains("test result:");
        if passed || !compiled {
            missed.push(format!("{bug}: {}", if compiled { "nothing failed" } else { "did not build" }));
        }
        say(&format!("{bug:<32} {}", if passed || !compiled { "MISSED" } else { "caught" }));
    }
    if !missed.is_empty() {
        bail!("seeded bugs missed:\n  {}", missed.join("\n  "));
    }
    Ok(())
}

/// The planted bug reaches only our own crates: cargo calls a wrapper for these, which adds the `--cfg`, so that third-party crates are built
/// once for all bugs. Cargo tells wrappers apart by their path, hence one file per bug.
fn test_command(package: &str, test: &str, bug: Option<&str>) -> anyhow::Result<std::process::Command> {
    let folder = root().join("target/seeded-bugs");
    let mut command = cargo();
    command.args(["test", "-q", "-p", package, "--target-dir"]).arg(&folder).args(["--", test]);
    command.env_remove("RUSTC_WRAPPER");
    if let Some(bug) = bug {
        let wrapper = folder.join(format!("with-{bug}"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(
            &wrapper,
            format!("#!/bin/sh\nrustc=$1; shift\nexec \"$rustc\" \"$@\" --cfg 'seeded_bug=\"{bug}\"'\n"),
        )?;
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        command.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
    }
    Ok(command)
}

fn ran_a_test(text: &str) -> bool {
    text.lines().filter_map(|l| l.split("test result: ok. ").nth(1)).any(|rest| !rest.starts_with("0 passed"))
}

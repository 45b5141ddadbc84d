//! A safety rule counts only when the suite can fail for it: each planted bug is switched on and its test must turn red.
//!
//! A bug is planted behind `#[cfg(seeded_bug = "…")]` in one crate. Only that crate, and what its test needs above it, is built with the bug,
//! in a target folder of its own, from which every crate that held a bug is removed again. For tests of real processes it is the program that is
//! built so; the test is the ordinary one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::tool::{capture, cargo, root, rust_files, say, seconds, target};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this bug.
    #[arg(long)]
    only: Option<String>,
    /// Leave out the proof that each test passes without its bug; the ordinary tests give it too.
    #[arg(long)]
    after_tests: bool,
}

impl Args {
    /// Every bug, when all tests have just passed.
    pub(crate) fn after_tests() -> Self {
        Self { only: None, after_tests: true }
    }
}

/// A forbidden bug and the test that must fail with it, and pass without.
struct Bug {
    name: &'static str,
    package: &'static str,
    /// `--test` target of the package; none: a test inside its library.
    suite: Option<&'static str>,
    test: &'static str,
    /// Whether the bug is in the program that the test runs, and not in the test.
    program: bool,
}

const fn bug(name: &'static str, package: &'static str, suite: Option<&'static str>, test: &'static str) -> Bug {
    Bug { name, package, suite, test, program: false }
}

const fn program_bug(name: &'static str, test: &'static str) -> Bug {
    Bug { name, package: "oarlock-tests-integration", suite: Some("all"), test, program: true }
}

const BUGS: &[Bug] = &[
    bug(
        "answer_before_fsync",
        "oarlock-storage",
        Some("power_loss"),
        "a_thousand_power_losses_lose_nothing_acknowledged",
    ),
    program_bug("answer_before_fsync", "faults::embedded::an_api_server_that_is_killed_again_and_again_keeps_its_word"),
    bug(
        "policy_denial_forgotten",
        "oarlock-admission",
        Some("policies"),
        "what_a_validation_says_becomes_text_reason_and_code",
    ),
    bug("cel_without_limit", "oarlock-cel", Some("all"), "limits::expressions_share_one_budget_and_have_a_limit_each"),
    bug(
        "retry_unknown_write",
        "oarlock-client",
        Some("https"),
        "a_write_is_not_repeated_when_its_outcome_is_unknown_and_a_read_is",
    ),
    bug(
        "restart_before_termination",
        "oarlock-tests-sim",
        None,
        "an_actor_that_hangs_is_killed_and_replaced_only_after_its_termination",
    ),
    bug("read_undurable", "oarlock-store", Some("store"), "nobody_sees_a_write_before_it_is_durable"),
    bug(
        "watch_skips_event",
        "oarlock-store",
        Some("watch_model"),
        "every_watcher_gets_what_a_naive_filter_gives_or_one_gone",
    ),
    bug(
        "relist_keeps_deleted",
        "oarlock-informer",
        None,
        "an_expired_revision_replaces_the_state_and_reports_what_went_missing",
    ),
    bug("watch_resumes_late", "oarlock-informer", None, "a_broken_stream_is_resumed_from_the_last_revision"),
    program_bug("ready_while_stopping", "rolling::ending::a_server_says_that_it_goes_and_serves_on_for_the_delay"),
    bug("feed_over_a_gap", "oarlock-informer", None, "a_cache_that_is_told_shows_at_each_revision_what_the_server_had"),
    bug("two_workers_one_key", "oarlock-informer", None, "at_most_so_many_workers_run_and_never_two_on_one_key"),
    bug("own_writes_unseen", "oarlock-informer", None, "a_key_is_not_decided_again_before_its_own_writes_show"),
    bug("arbiter_trusts_shards", "oarlock-scheduler", None, "the_arbiter_accepts_exactly_what_the_oracle_allows"),
    // And the seeds can fail for it.
    bug("arbiter_trusts_shards", "oarlock-tests-sim", None, "shards_bind_every_pod_once_and_break_no_constraint"),
    bug(
        "arbiter_without_catch_up",
        "oarlock-scheduler",
        None,
        "a_unit_is_acted_for_when_the_caches_have_come_past_its_epoch",
    ),
    bug("told_without_claim", "oarlock-scheduler", None, "what_is_written_is_written_under_the_claim_that_it_is_for"),
    bug("told_of_any_revision", "oarlock-scheduler", None, "what_is_said_of_a_waiting_pod_is_not_said_of_a_bound_one"),
    bug("victims_unchecked", "oarlock-scheduler", None, "the_arbiter_looks_at_victims_again"),
    bug("nomination_ignored", "oarlock-scheduler", None, "room_that_victims_leave_is_kept_for_who_was_nominated"),
    bug("late_proposal_accepted", "oarlock-scheduler", None, "a_proposal_for_another_epoch_is_not_looked_at"),
    bug("subpath_follows_links", "oarlock-kubelet", None, "directories_are_made_inside_the_volume_and_nowhere_else"),
    bug(
        "barrier_joined_in_flight",
        "oarlock-store",
        Some("store"),
        "most_recent_reads_share_barriers_that_began_after_they_arrived",
    ),
    bug(
        "load_beyond_its_revision",
        "oarlock-storage",
        Some("etcd"),
        "a_load_among_writes_and_compactions_says_how_far_it_has_come",
    ),
    bug("delete_claimed", "oarlock-store", Some("store"), "a_delete_is_acknowledged_to_one_caller"),
    bug("watch_outlives_hole", "oarlock-store", None, "a_skip_ends_the_watches_that_missed_something_and_no_other"),
    // Any of the store's would do: this one shows that the seeds can fail.
    bug("watch_outlives_hole", "oarlock-tests-sim", None, "two_hundred_seeds_of_faults_break_no_rule"),
    bug("reload_goes_back", "oarlock-store", Some("store"), "a_reload_shows_no_older_state"),
    bug("cold_body_ages", "oarlock-store", Some("cold"), "a_store_that_keeps_no_bodies_answers_as_one_that_does"),
    bug(
        "stale_negative",
        "oarlock-service-apiserver",
        Some("lagging"),
        "nothing_is_missing_that_another_server_acknowledged",
    ),
    bug(
        "allocator_in_memory",
        "oarlock-service-apiserver",
        Some("lagging"),
        "an_address_is_given_once_whoever_gives_it",
    ),
    bug(
        "batch_of_one_transaction",
        "oarlock-storage",
        Some("etcd"),
        "what_is_written_together_has_revisions_of_its_own",
    ),
    bug(
        "stale_unchanged",
        "oarlock-service-apiserver",
        Some("lagging"),
        "a_change_that_changes_nothing_is_not_answered_from_what_was",
    ),
    bug("header_as_progress", "oarlock-storage", Some("etcd"), "keys_of_others_move_the_tail_on_and_nothing_else"),
    bug(
        "retry_after_unknown",
        "oarlock-storage",
        Some("etcd"),
        "a_write_that_is_not_answered_is_unknown_and_not_made_twice",
    ),
    bug("restored_revision_falls", "oarlock-storage", Some("snapshot"), "after_a_restore_revisions_have_risen"),
    bug(
        "older_state_goes_on",
        "oarlock-storage",
        Some("snapshot"),
        "after_an_older_state_of_etcd_revisions_go_on_above_the_newer",
    ),
    bug(
        "fence_from_cache",
        "oarlock-service-apiserver",
        Some("lagging"),
        "a_claim_that_has_gone_to_another_writes_nothing_whoever_knows",
    ),
    bug(
        "owner_without_catch_up",
        "oarlock-informer",
        None,
        "a_unit_is_worked_on_when_it_is_held_and_the_caches_show_its_epoch",
    ),
    bug(
        "suspicion_undamped",
        "oarlock-placement",
        None,
        "silence_moves_what_has_settled_and_nothing_that_has_just_come",
    ),
    bug(
        "cloud_moves_on_suspicion",
        "oarlock-placement",
        None,
        "what_reaches_outside_moves_when_its_holder_leaves_or_its_lease_has_run_out_and_for_nothing_else",
    ),
    // And the seeds can fail for it.
    bug(
        "cloud_moves_on_suspicion",
        "oarlock-tests-sim",
        None,
        "what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit",
    ),
    bug(
        "cloud_acts_unrenewed",
        "oarlock-mesh",
        None,
        "every_call_is_over_a_margin_before_the_lease_can_seem_to_have_run_out",
    ),
    bug("cloud_claim_outlives_lease", "oarlock-mesh", None, "a_renewal_that_is_answered_late_bridges_no_gap"),
    bug(
        "cloud_claim_outlives_lease",
        "oarlock-tests-sim",
        None,
        "what_reaches_a_cloud_is_done_once_whatever_becomes_of_who_holds_the_unit",
    ),
    bug("deaf_suspects_others", "oarlock-placement", None, "who_does_not_hear_itself_suspects_nobody_and_begins_anew"),
    bug(
        "unheard_believed",
        "oarlock-placement",
        None,
        "who_is_expected_and_never_heard_is_missed_when_it_could_have_come_back",
    ),
    program_bug("nobody_judges_silence", "mesh::policies::nothing_slips_through_while_those_who_judge_come_and_go"),
    bug("job_counts_twice", "oarlock-controllers", None, "a_restart_after_any_write_counts_every_pod_once"),
    bug(
        "unseen_owner_forgotten",
        "oarlock-tests-sim",
        None,
        "who_depends_on_an_owner_that_no_watch_has_shown_goes_with_it",
    ),
    bug("secret_on_disk", "oarlock-kubelet", None, "what_is_secret_is_kept_in_memory"),
    bug("sender_by_its_word", "oarlock-bus", None, "nobody_speaks_as_another_where_the_subject_names_the_sender"),
    bug("any_epoch_will_do", "oarlock-mesh", Some("mesh"), "a_unit_answers_at_its_own_epoch_and_says_which_that_is"),
    bug("answer_anywhere", "oarlock-bus", Some("bus"), "nobody_is_made_to_speak_where_the_asker_likes"),
    bug("connection_mended", "oarlock-bus", Some("bus"), "what_a_dead_server_did_not_take_is_not_sent_to_the_next"),
    bug("expired_is_handled", "oarlock-bus", Some("bus"), "memory::what_expired_in_the_queue_is_not_handed_out"),
    bug("budget_ignores_queue", "oarlock-bus", Some("bus"), "memory::the_budget_shrinks_with_the_time_queued"),
];

/// Selected with every test: they bring the features of third-party crates that the workspace as a whole has, so that nothing is built twice
/// and a compile cache knows it. The programs have no library, and the libraries are low and small.
const FEATURES: [&str; 5] = ["oarlock", "oarlock-loadtests", "xtask", "oarlock-client", "oarlock-storage"];

/// Switches on each bug in turn; fails when one survives, or when anything but its own test fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let homes = homes()?;
    let rows: BTreeSet<&str> = BUGS.iter().map(|bug| bug.name).collect();
    let planted: BTreeSet<&str> = homes.keys().map(String::as_str).collect();
    ensure!(planted == rows, "planted bugs and rows differ: {:?}", planted.symmetric_difference(&rows));
    let bugs: Vec<&Bug> = BUGS.iter().filter(|bug| args.only.as_deref().is_none_or(|only| only == bug.name)).collect();
    ensure!(!bugs.is_empty(), "no such bug");

    let nursery = Nursery::new()?;
    nursery.remove(homes.values())?;
    if !args.after_tests {
        for bug in &bugs {
            let (passed, text) = nursery.test(bug, None)?;
            ensure!(passed && failed(&text).is_empty() && ran(&text, bug), "without {} it fails\n{text}", bug.name);
            say(&format!("{:<28} passes {}", "no bug", bug.test));
        }
    }
    let mut table = Vec::new();
    let mut survived = Vec::new();
    for bug in bugs {
        let home = homes.get(bug.name).context("a bug without a home")?;
        nursery.remove([home])?;
        let (took, verdict) = seconds(|| nursery.verdict(bug, home))?;
        if let Err(why) = &verdict {
            say(&format!("{}: {why}", bug.name));
            survived.push(bug.name);
        }
        let outcome = if verdict.is_ok() { "caught by" } else { "MISSED by" };
        say(&format!("{:<28} {outcome} {} ({took:.0} s)", bug.name, bug.test));
        table.push(format!("{:<28} {outcome} {:<70} {:<18} {took:>5.1} s", bug.name, bug.test, bug.package));
        nursery.remove([home])?;
    }
    say(&format!("\n{}", table.join("\n")));
    ensure!(survived.is_empty(), "seeded bugs missed: {}", survived.join(", "));
    Ok(())
}

/// Which package each planted bug lives in, as the sources say.
fn homes() -> anyhow::Result<BTreeMap<String, String>> {
    let mut homes = BTreeMap::new();
    for path in rust_files()?.into_iter().filter(|path| !path.starts_with("xtask")) {
        let text = std::fs::read_to_string(root().join(&path)).with_context(|| path.display().to_string())?;
        let Some(folder) = path.iter().nth(1).and_then(|part| part.to_str()) else { continue };
        for name in text.split("seeded_bug = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let home = format!("oarlock-{folder}");
            let other = homes.insert(name.to_owned(), home.clone()).filter(|other| *other != home);
            ensure!(other.is_none(), "{name} is planted in two crates: {home} and {other:?}");
        }
    }
    Ok(homes)
}

/// The target folder in which crates with bugs are built.
struct Nursery {
    folder: PathBuf,
    wrapper: PathBuf,
}

impl Nursery {
    /// Cargo calls the wrapper for every crate; it adds the `--cfg` for the one that is named in the environment, and passes the others to
    /// the compile cache if there is one.
    fn new() -> anyhow::Result<Self> {
        let folder = target().join("seeded-bugs");
        let wrapper = folder.join("rustc");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(
            &wrapper,
            r#"#!/bin/sh
case " $* " in
*" --crate-name $SEEDED_CRATE "*) exec "$@" --cfg "seeded_bug=\"$SEEDED_BUG\"" ;;
*) exec ${SEEDED_CACHE:+"$SEEDED_CACHE"} "$@" ;;
esac
"#,
        )?;
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let nursery = Self { folder, wrapper };
        nursery.take_over()?;
        Ok(nursery)
    }

    /// Begins with the libraries that the ordinary build has made, if any, so that only what a bug changes is built again. Programs and tests,
    /// most of the bytes, stay behind.
    fn take_over(&self) -> anyhow::Result<()> {
        let (from, to) = (target().join("debug"), self.folder.join("debug"));
        if to.exists() || !from.join("deps").exists() {
            return Ok(());
        }
        std::fs::create_dir_all(to.join("deps"))?;
        let (ok, text) = capture(
            Command::new("cp").arg("--archive").args([from.join(".fingerprint"), from.join("build")]).arg(&to),
        )?;
        ensure!(ok, "{text}");
        for file in std::fs::read_dir(from.join("deps"))? {
            let (path, name) = file.map(|file| (file.path(), file.file_name()))?;
            if path.extension().is_some_and(|ending| ["d", "rlib", "rmeta", "so"].iter().any(|known| ending == *known))
            {
                let copy = to.join("deps").join(name);
                std::fs::copy(&path, &copy)?;
                // Cargo builds again what seems older than its sources.
                std::fs::File::options().write(true).open(&copy)?.set_modified(path.metadata()?.modified()?)?;
            }
        }
        Ok(())
    }

    /// Forgets what was built of these packages, with a bug or without.
    fn remove<'a>(&self, packages: impl IntoIterator<Item = &'a String>) -> anyhow::Result<()> {
        let mut command = cargo();
        command.args(["clean", "--target-dir"]).arg(&self.folder);
        for package in packages {
            command.args(["-p", package]);
        }
        let (ok, text) = capture(&mut command)?;
        if !ok {
            bail!("{text}");
        }
        Ok(())
    }

    /// Runs a bug's test, with the bug when its crate is given; whether it passed, and what it said.
    fn test(&self, bug: &Bug, home: Option<&str>) -> anyhow::Result<(bool, String)> {
        let name = if home.is_some() { bug.name } else { "" };
        let mut command = if bug.program { self.build_program() } else { self.test_here(bug) };
        let cache = std::env::var_os("RUSTC_WRAPPER").unwrap_or_default();
        command.env("RUSTC_WRAPPER", &self.wrapper).env("SEEDED_CACHE", cache).env("CARGO_INCREMENTAL", "0");
        command.env("SEEDED_CRATE", home.unwrap_or("none").replace('-', "_")).env("SEEDED_BUG", name);
        let (passed, text) = capture(&mut command)?;
        if !bug.program || !passed {
            return Ok((passed, text));
        }
        // With all packages, so that what the ordinary tests have built will do.
        let mut command = cargo();
        command.args(["test", "--workspace", "--test"]).args(bug.suite).args(["--", bug.test]);
        capture(command.env("OARLOCK_BIN", self.folder.join("debug/oarlock")))
    }

    fn build_program(&self) -> Command {
        let mut command = cargo();
        command.args(["build", "-p", "oarlock", "--target-dir"]).arg(&self.folder);
        command
    }

    /// The test of a crate with a bug. A suite is found by its name among all packages of the table; for a test inside a library only this one is
    /// selected, because cargo builds the tests of every library it is given.
    fn test_here(&self, bug: &Bug) -> Command {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast", "--target-dir"]).arg(&self.folder);
        let packages = BUGS.iter().filter(|row| !row.program).map(|row| row.package);
        let packages = packages.filter(|package| bug.suite.is_some() || *package == bug.package);
        for package in packages.chain(FEATURES).collect::<BTreeSet<_>>() {
            command.args(["-p", package]);
        }
        match bug.suite {
            Some(suite) => command.args(["--test", suite]),
            None => command.arg("--lib"),
        };
        command.args(["--", bug.test]);
        command
    }

    /// Whether the bug's own test, and nothing else, fails with it.
    fn verdict(&self, bug: &Bug, home: &str) -> anyhow::Result<Result<(), String>> {
        let (passed, text) = self.test(bug, Some(home))?;
        Ok(match failed(&text).as_slice() {
            [own] if own.ends_with(bug.test) && !passed => Ok(()),
            [] if passed && ran(&text, bug) => Err("its test passes with it".to_owned()),
            [] => Err(format!("its test did not come to an end\n{text}")),
            others => Err(format!("{} failed\n{text}", others.join(", "))),
        })
    }
}

/// The tests that libtest reports as failed.
fn failed(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect()
}

fn ran(text: &str, bug: &Bug) -> bool {
    let end = format!("{} ... ok", bug.test);
    text.lines().any(|line| line.starts_with("test ") && line.ends_with(&end))
}

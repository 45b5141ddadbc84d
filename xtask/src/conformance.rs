//! `cargo xtask conformance`: the conformance specs of upstream's end-to-end suite against a control plane and two nodes on this machine.

mod certificates;
mod cgroup;
mod clean_up;
mod containerd;
mod control_plane;
mod daemon;
mod dns;
mod golden;
pub(crate) mod images;
mod needs;
mod network;
mod node;
mod outcome;
mod place;
mod programs;
mod selection;
mod suite;
mod table;
pub(crate) mod wait;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use self::golden::{Golden, Verdict};
use self::outcome::Outcome;
use self::place::Place;
use self::selection::{Part, Selection};
use crate::tool::say;

pub(crate) use self::programs::PROGRAMS;

/// Number of unexpected failures up to which the failed specs run a second time. More failures are no accident.
const SECOND_TRIES: usize = 20;

/// The maker of a part of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Maker {
    /// Oarlock.
    Ours,
    /// Kubernetes.
    Upstream,
}

/// Whether the specs run that bear no other beside them.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Serial {
    Without,
    Also,
    Only,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kubelets of the two nodes. containerd, kube-proxy and CoreDNS are upstream's with either.
    #[arg(long, value_enum, default_value_t = Maker::Upstream)]
    nodes: Maker,
    /// The API server, controllers and scheduler.
    #[arg(long, value_enum, default_value_t = Maker::Ours)]
    control_plane: Maker,
    /// Only specs in whose names this regular expression is found.
    #[arg(long, value_name = "RE", conflicts_with = "list")]
    focus: Option<String>,
    /// Only the specs whose names are the lines of this file.
    #[arg(long, value_name = "FILE", conflicts_with = "serial")]
    list: Option<PathBuf>,
    /// The serial specs, one at a time: after the others, or alone (`only`).
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t = Serial::Without, default_missing_value = "also")]
    serial: Serial,
    /// Number of parallel specs that run at once.
    #[arg(long, value_name = "N", default_value_t = 12)]
    procs: usize,
    /// The oarlock to be tested. Default: `cargo build --release` makes it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Time limit in minutes of the parallel specs, and again of the serial ones; a spec that has not ended by then has failed.
    #[arg(long, value_name = "MINUTES", default_value_t = 90)]
    timeout: u64,
    /// Add the specs that passed to tests/conformance/passing.txt.
    #[arg(long)]
    grow: bool,
    /// Wait until standard input ends, and take away what the run in this folder has left. A run starts this beside itself, so that it holds for
    /// a run that is killed, too.
    #[arg(long, hide = true, value_name = "DIR")]
    clean_up_after: Option<PathBuf>,
}

impl Args {
    /// All specs of the golden list.
    pub(crate) fn golden() -> Self {
        Self {
            nodes: Maker::Upstream,
            control_plane: Maker::Ours,
            focus: None,
            list: Some(golden::PASSING.into()),
            serial: Serial::Without,
            procs: 12,
            program: None,
            timeout: 60,
            grow: false,
            clean_up_after: None,
        }
    }
}

/// Runs the chore.
///
/// # Errors
/// When the machine lacks something, a program does not build or start, or a spec fails for which `tests/conformance/known.toml` has no reason.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(folder) = &args.clean_up_after {
        return clean_up::after(folder);
    }
    let golden = Golden::read()?;
    let selection = Selection::of(args)?;
    needs::meet()?;
    let programs = programs::provide(args)?;
    let images = images::provide(&programs)?;
    let run = Run { args, golden, selection };
    let (tried, cleaned) = run.in_a_cluster(&programs, &images)?;
    let reported = run.report(&tried);
    if let Err(error) = &cleaned {
        say(&format!("{error:#}"));
    }
    reported.and(cleaned)
}

/// The parameters of a run.
struct Run<'a> {
    args: &'a Args,
    golden: Golden,
    selection: Selection,
}

/// The results of a run.
struct Tried {
    folder: PathBuf,
    outcomes: BTreeMap<String, Outcome>,
    /// Name and minutes of each part; of parts of one name, those of the longest.
    minutes: Vec<(&'static str, f64)>,
}

impl Run<'_> {
    /// Makes a cluster, runs the specs in it, and removes it. Returns the results, and whether nothing is left.
    fn in_a_cluster(
        &self,
        programs: &programs::Programs,
        images: &Path,
    ) -> anyhow::Result<(Tried, anyhow::Result<()>)> {
        clean_up::leftovers()?;
        let place = Place::make()?;
        let cleaner = clean_up::Cleaner::start(&place)?;
        let seen = self.specs(&place, programs, images);
        let cleaned = cleaner.finish();
        if let (Err(_), Err(error)) = (&seen, &cleaned) {
            say(&format!("{error:#}"));
        }
        Ok((seen?, cleaned))
    }

    fn specs(&self, place: &Place, programs: &programs::Programs, images: &Path) -> anyhow::Result<Tried> {
        cgroup::make(place)?;
        network::lay(place)?;
        // Held while specs run: upstream's control plane ends with its standard input.
        let plane = control_plane::start(place, programs, self.args.control_plane)?;
        node::start_all(place, programs, &plane, images, self.args.nodes)?;
        dns::start(place, programs, &plane)?;
        node::wait_for_all(place, programs, &plane)?;
        let suite = suite::Suite { place, programs, plane: &plane, minutes: self.args.timeout };
        let (mut outcomes, mut minutes) = (BTreeMap::new(), Vec::<(&str, f64)>::new());
        for parts in self.selection.parts(self.args.procs, &self.golden.known()) {
            for (part, (seconds, seen)) in parts.iter().zip(suite.run_all(&parts)?) {
                outcomes.extend(seen);
                let took = seconds / 60.0;
                match minutes.last_mut() {
                    Some((name, longest)) if *name == part.name => *longest = took.max(*longest),
                    _ => minutes.push((part.name, took)),
                }
            }
        }
        ensure!(!outcomes.is_empty(), "no spec was found");
        self.try_again(&suite, &mut outcomes)?;
        Ok(Tried { folder: place.folder().to_path_buf(), outcomes, minutes })
    }

    /// Runs those that should have passed a second time, with few beside them: a spec that then passes is flaky, and no failure.
    fn try_again(&self, suite: &suite::Suite<'_>, outcomes: &mut BTreeMap<String, Outcome>) -> anyhow::Result<()> {
        let again = self.golden.unexpected(outcomes);
        if again.is_empty() || again.len() > SECOND_TRIES {
            return Ok(());
        }
        say(&format!("a second time: {} specs of the golden list that failed", again.len()));
        for (name, second) in suite.run(&Part::again(&again))? {
            if let Some(first) = outcomes.get_mut(&name).filter(|_| second.passed()) {
                *first = second.after(first);
            }
        }
        Ok(())
    }

    /// Prints and writes what was seen.
    fn report(&self, tried: &Tried) -> anyhow::Result<()> {
        let Tried { folder, outcomes, minutes } = tried;
        let json = folder.join("result.json");
        std::fs::write(&json, serde_json::to_string_pretty(outcomes)?)?;
        let asked = self.selection.names();
        let verdict = Verdict::of(outcomes, &self.golden, asked);
        say(&verdict.text());
        for (name, minutes) in minutes {
            say(&format!("{name}: {minutes:.1} minutes"));
        }
        say(&format!("every spec: {}", json.display()));
        if self.args.grow {
            golden::grow(outcomes)?;
        }
        if let Some(title) = self.selection.title(self.args) {
            table::write(&table::Block { title, outcomes, golden: &self.golden, minutes })?;
        }
        ensure!(verdict.is_green(), "{}", verdict.red());
        Ok(())
    }
}

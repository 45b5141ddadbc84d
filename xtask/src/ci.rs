//! What CI runs, in the order in which it fails soonest.

use std::process::Command;
use std::time::Duration;

use crate::tool::{cargo, run as exec, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what takes longest (seeded bugs).
    #[arg(long)]
    quick: bool,
}

/// Runs every step and prints how long each took.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut took: Vec<(&str, Duration)> = Vec::new();
    let mut step = |name: &'static str, action: &mut dyn FnMut() -> anyhow::Result<()>| -> anyhow::Result<()> {
        say(&format!("== {name}"));
        #[expect(clippy::disallowed_methods, reason = "a chore measures real time")]
        let start = std::time::Instant::now();
        action()?;
        took.push((name, start.elapsed()));
        Ok(())
    };
    step("fmt", &mut || exec(cargo().args(["fmt", "--all", "--check"])))?;
    step("layers", &mut crate::check_layers::run)?;
    step("sizes", &mut crate::check_sizes::run)?;
    step("clippy", &mut || exec(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))?;
    step("build", &mut || exec(cargo().args(["build", "-p", "oarlock"])))?;
    step("tests", &mut || exec(cargo().args(["test", "--workspace"])))?;
    if !args.quick {
        step("seeded bugs", &mut || crate::seeded_bugs::run(&crate::seeded_bugs::Args::all()))?;
    }
    step("docs", &mut || exec(docs().args(["doc", "--workspace", "--no-deps", "--document-private-items"])))?;
    for (name, time) in took {
        say(&format!("{name:<12} {:>6.1} s", time.as_secs_f64()));
    }
    Ok(())
}

fn docs() -> Command {
    let mut command = cargo();
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    command
}

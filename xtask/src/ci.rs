//! What CI runs, in the order in which it fails soonest.

use std::process::Command;

use anyhow::ensure;

use crate::tool::{capture, cargo, root, run as exec, say, seconds};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what takes longest (seeded bugs).
    #[arg(long)]
    quick: bool,
}

/// Runs every step and prints how long each took.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut took: Vec<(&str, f64)> = Vec::new();
    let mut step = |name: &'static str, action: &mut dyn FnMut() -> anyhow::Result<()>| -> anyhow::Result<()> {
        say(&format!("== {name} ({} free on the disk)", room()?));
        took.push((name, seconds(action)?.0));
        Ok(())
    };
    step("fmt", &mut || exec(cargo().args(["fmt", "--all", "--check"])))?;
    step("layers", &mut crate::check_layers::run)?;
    step("sizes", &mut crate::check_sizes::run)?;
    step("clippy", &mut || exec(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))?;
    step("build", &mut || exec(cargo().args(["build", "-p", "oarlock"])))?;
    step("peers", &mut || {
        crate::peer::prepare();
        Ok(())
    })?;
    step("tests", &mut || exec(cargo().args(["test", "--workspace", "--no-fail-fast"])))?;
    step("docs", &mut || exec(docs().args(["doc", "--workspace", "--no-deps", "--document-private-items"])))?;
    if !args.quick {
        step("seeded bugs", &mut || crate::seeded_bugs::run(&crate::seeded_bugs::Args::after_tests()))?;
    }
    for (name, time) in took {
        say(&format!("{name:<12} {time:>6.1} s"));
    }
    Ok(())
}

/// For whoever reads of a run that ended for want of it.
fn room() -> anyhow::Result<String> {
    let (ok, text) = capture(Command::new("df").args(["--human-readable", "--output=avail"]).arg(root()))?;
    ensure!(ok, "df: {text}");
    Ok(text.lines().last().unwrap_or_default().trim().to_owned())
}

fn docs() -> Command {
    let mut command = cargo();
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    command
}

//! What CI runs, in the order in which it fails soonest.

use std::process::Command;

use anyhow::anyhow;

use crate::tool::{cargo, output, root, run as exec, say, seconds};

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
        let before: f64 = took.iter().map(|(_, time)| time).sum();
        say(&format!("== {name} (after {before:.0} s, {} free on the disk)", room()?));
        took.push((name, seconds(action)?.0));
        Ok(())
    };
    step("fmt", &mut || exec(cargo().args(["fmt", "--all", "--check"])))?;
    step("layers", &mut crate::check_layers::run)?;
    step("sizes", &mut crate::check_sizes::run)?;
    step("clippy", &mut || exec(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])))?;
    step("build", &mut || exec(cargo().args(["build", "-p", "oarlock"])))?;
    // Documentation is written by one processor at a time.
    step("peers, docs", &mut || {
        std::thread::scope(|scope| {
            let docs = scope.spawn(|| exec(&mut docs()));
            crate::peer::prepare();
            docs.join().map_err(|_| anyhow!("docs panicked"))?
        })
    })?;
    step("tests", &mut crate::tests::run)?;
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
    let text = output(Command::new("df").args(["--human-readable", "--output=avail"]).arg(root()))?;
    Ok(text.lines().last().unwrap_or_default().trim().to_owned())
}

fn docs() -> Command {
    let mut command = cargo();
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    // With examples, third-party crates have the features that they have with tests: what clippy has checked of them will do.
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items", "--lib", "--bins", "--examples"]);
    command
}

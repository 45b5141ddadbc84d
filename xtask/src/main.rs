//! Chores of the workspace: `cargo xtask <chore>`.

mod check_layers;
mod check_sizes;
mod ci;
mod faults;
mod images;
mod new;
mod oracle;
mod peer;
mod schema;
mod seeded_bugs;
mod tests;
mod tool;

use clap::{Parser, Subcommand};

/// Chores of the workspace.
#[derive(Parser)]
#[command(name = "xtask", version, about)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Fail when a crate depends upwards, on an engine that belongs to another crate, or around the client.
    CheckLayers,
    /// Fail when a source file is over its size limit without a reason.
    CheckSizes,
    /// Write the files of a new thing from its pattern.
    New(new::Args),
    /// Make libs/schema/data from upstream's Go types (needs Go); --check fails on a difference.
    Schema(schema::Args),
    /// Record upstream's answers to our requests, or check ours against them.
    Oracle(oracle::Args),
    /// Build and start upstream's own programs, to compare with or to swap parts.
    Peer(peer::Args),
    /// Build with each planted bug and show that the named test catches it.
    SeededBugs(seeded_bugs::Args),
    /// Run the tests with faults some times and write docs/operations/faults.md from what they saw.
    Faults(faults::Args),
    /// Make the images of compose.yaml where no registry can be reached (needs docker, debootstrap, Go).
    Images(images::Args),
    /// Everything that CI runs, in its order.
    Ci(ci::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::CheckLayers => check_layers::run(),
        Chore::CheckSizes => check_sizes::run(),
        Chore::New(args) => new::run(&args),
        Chore::Schema(args) => schema::run(&args),
        Chore::Oracle(args) => oracle::run(&args),
        Chore::Peer(args) => peer::run(&args),
        Chore::SeededBugs(args) => seeded_bugs::run(&args),
        Chore::Faults(args) => faults::run(&args),
        Chore::Images(args) => images::run(&args),
        Chore::Ci(args) => ci::run(&args),
    }
}

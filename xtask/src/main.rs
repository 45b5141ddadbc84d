//! Chores of the workspace: `cargo xtask <chore>`.

mod blocks;
mod check_circles;
mod check_layers;
mod check_sizes;
mod check_tests;
mod check_tracing;
mod ci;
mod compile;
mod conformance;
mod dashboards;
mod docs;
#[cfg(test)]
mod documents;
mod executables;
mod faults;
mod first_build;
mod images;
mod new;
mod nightly;
mod older;
mod oracle;
mod package;
mod peer;
mod schema;
mod seeded_bugs;
mod since;
mod steps;
mod tests;
mod tool;
mod zipkin;

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
    /// Fail when files of a crate import one another in a circle, or a list of rows is imported by what it lists.
    CheckCircles,
    /// Fail when a crate depends upwards, on an engine that belongs to another crate, or around the client.
    CheckLayers,
    /// Fail when a source file is over its size limit without a reason.
    CheckSizes,
    /// Fail when a file with tests is not compiled.
    CheckTests,
    /// Fail on two versions of an OpenTelemetry crate, on spans with a second cause, and where a span guard may be held across an await.
    CheckTracing,
    /// Write the files of a new thing from its pattern.
    New(new::Args),
    /// Make libs/schema/data from upstream's Go types (needs Go); --check fails on a difference.
    Schema(schema::Args),
    /// Record upstream's answers to our requests, or check ours against them.
    Oracle(oracle::Args),
    /// Build and start upstream's own programs, to compare with or to swap parts.
    Peer(peer::Args),
    /// Show for each planted bug that the named test passes without it and catches it.
    SeededBugs(seeded_bugs::Args),
    /// Run the tests with faults some times and write docs/operations/faults.md from what they saw.
    Faults(faults::Args),
    /// Make the images of compose.yaml where no registry can be reached (needs docker, debootstrap, Go).
    Images(images::Args),
    /// Run upstream's conformance specs against our control plane and two nodes in network namespaces (needs root, Go, debootstrap).
    Conformance(conformance::Args),
    /// Write dashboards for Grafana and vmui from observe/dashboards; --check fails on a difference.
    Dashboards(dashboards::Args),
    /// The gate: everything that CI runs, in its order.
    Ci(ci::Args),
    /// Build `--release` from nothing and wait until a cluster answers kubectl; print what that took.
    FirstBuild(first_build::Args),
    /// Build programs of today's tree or of another commit; print the folder that holds them.
    Executables(executables::Args),
    /// Upgrade a crew at work from the build of an older commit to today's and back; or let that build write a state for tests.
    Older(older::Args),
    /// Build the Debian package; install, run, kill, upgrade and purge it on a host of its own (needs root, debootstrap).
    Package(package::Args),
    /// Runs the checks that are too long for the gate; writes the tables of docs/operations.
    Nightly(nightly::Args),
    /// Read spans from standard input, as OTLP's JSON or of `oarlock trace --output json`; print them in the JSON that Zipkin's API takes.
    Zipkin,
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::CheckCircles => check_circles::run(),
        Chore::CheckLayers => check_layers::run(),
        Chore::CheckSizes => check_sizes::run(),
        Chore::CheckTests => check_tests::run(),
        Chore::CheckTracing => check_tracing::run(),
        Chore::New(args) => new::run(&args),
        Chore::Schema(args) => schema::run(&args),
        Chore::Oracle(args) => oracle::run(&args),
        Chore::Peer(args) => peer::run(&args),
        Chore::SeededBugs(args) => seeded_bugs::run(&args),
        Chore::Faults(args) => faults::run(&args),
        Chore::Images(args) => images::run(&args),
        Chore::Conformance(args) => conformance::run(&args),
        Chore::Dashboards(args) => dashboards::run(&args),
        Chore::Ci(args) => ci::run(&args),
        Chore::FirstBuild(args) => first_build::run(&args),
        Chore::Executables(args) => executables::run(&args),
        Chore::Older(args) => older::run(&args),
        Chore::Package(args) => package::run(&args),
        Chore::Nightly(args) => nightly::run(&args),
        Chore::Zipkin => zipkin::run(),
    }
}

//! First figures: starts an `oarlock` of its own and measures it. `cargo run --release -p oarlock-loadtests -- --help`.
//!
//! Every scenario is bounded in count and time, talks to the loopback address only, and prints one JSON line; a readable table ends the run.

mod args;
mod cluster;
mod connection;
mod report;
mod scenarios;

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = args::Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut report = report::Report::new(&args);
        for scenario in scenarios::ALL.iter().filter(|s| args.wants(s.name)) {
            report.add(scenario.name, (scenario.run)(args.clone()).await?);
        }
        report.print();
        Ok(())
    })
}

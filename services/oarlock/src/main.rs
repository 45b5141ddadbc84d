//! The oarlock executable: every service as a subcommand, and `up` for all of them in one process.

mod args;
mod client;
mod crew;
mod inspect;
mod keys;
mod paths;
mod probe;
mod snapshot;
mod trace;
mod up;

use clap::{CommandFactory as _, FromArgMatches as _};
use std::process::ExitCode;

/// mimalloc is small and returns memory to the system. Huge pages stay off: they tripled the memory of an idle server and made creates no faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = args::Args::command();
    let line = paths::without_empty(&command, std::env::args_os().collect());
    // Errors of the command line end the process in `get_matches_from`.
    let args = args::Args::from_arg_matches(&paths::lenient(command).get_matches_from(line));
    let args = args.unwrap_or_else(|error| error.exit());
    match run(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the last word to the person at the terminal")]
            {
                eprintln!("oarlock: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(args: args::Args) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = match args.command {
        args::Command::Up(up) => runtime.block_on(up::run(*up)),
        args::Command::Apiserver(a) => runtime.block_on(oarlock_service_apiserver::run(a)),
        args::Command::Admission(a) => runtime.block_on(oarlock_service_admission::run(a)),
        args::Command::Scheduler(a) => runtime.block_on(oarlock_service_scheduler::run(a)),
        args::Command::ControllerManager(a) => runtime.block_on(oarlock_service_controller_manager::run(a)),
        args::Command::CloudControllerManager(a) => runtime.block_on(oarlock_service_cloud_controller_manager::run(a)),
        args::Command::KonnectivityServer(a) => runtime.block_on(oarlock_service_konnectivity_server::run(a)),
        args::Command::KonnectivityAgent(a) => runtime.block_on(oarlock_service_konnectivity_agent::run(a)),
        args::Command::Probe(probe) => runtime.block_on(probe::run(probe)),
        args::Command::Keys(a) => runtime.block_on(keys::run(a)),
        args::Command::Kubelet(a) => runtime.block_on(oarlock_service_kubelet::run(a)),
        args::Command::Inspect(verb) => runtime.block_on(inspect::run(verb)),
        args::Command::Trace(args) => runtime.block_on(trace::run(args)),
        args::Command::Snapshot(verb) => runtime.block_on(snapshot::run(verb)),
    }?;
    // The actors have shut down in order already; leftover tasks must not delay the process's exit.
    runtime.shutdown_background();
    Ok(code)
}

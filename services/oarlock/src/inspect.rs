//! `oarlock inspect`: what a running control plane tells of itself.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context;
use oarlock_bus::Role;
use oarlock_config::NatsOptions;
use oarlock_runtime::{Options, System, clock};

/// What is asked about.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// The bus: per member and kind of subject messages, bytes, how long answers take, overloads. A member that does not answer is a line too.
    Mesh(Mesh),
}

/// Flags of `inspect mesh`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Mesh {
    /// How the members are reached; the credentials are `nats/inspector.seed`.
    #[command(flatten)]
    nats: NatsOptions,
    /// Seconds that a member may take to answer.
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

/// Asks and prints; the exit code is 0 when somebody was there.
///
/// # Errors
/// When no server can be reached, or nobody tells who is there.
pub(crate) async fn run(verb: Verb) -> anyhow::Result<u8> {
    let Verb::Mesh(mesh) = verb;
    let budget = Duration::from_secs(mesh.timeout);
    let system = System::start(Options::default()).await?;
    let name = oarlock_mesh::member_name("inspector", &oarlock_config::host_name()?);
    let bus =
        oarlock_mesh::connect(&system, &mesh.nats, Role::Inspector, &name)?.context("--nats-servers is missing")?;
    let connected = clock::timeout(budget, bus.wait_for(|state| state.connected)).await;
    connected.map_err(|_| {
        anyhow::anyhow!("not connected within {budget:?}: no server is there, or it does not know the credentials")
    })?;
    let reports = oarlock_mesh::inspect::inspect(&bus, budget).await.context("nobody tells who is there")?;
    // Who closes the pipe has read enough.
    let _closed = std::io::stdout().write_all(oarlock_mesh::inspect::table(&reports).as_bytes());
    Ok(u8::from(reports.is_empty()))
}

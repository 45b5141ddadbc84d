//! `oarlock inspect`: shows what a running control plane reports about itself.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context;
use oarlock_bus::Role;
use oarlock_config::NatsOptions;
use oarlock_runtime::{Options, System, clock};

/// Subject of an inspection.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// The NATS members: for each member and kind of subject the messages, bytes, latency of answers and overloads. A member that does not answer gets a line
    /// too.
    Mesh(Mesh),
}

/// Flags of `inspect mesh`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Mesh {
    /// How to reach NATS; the credentials are `nats/inspector.seed`.
    #[command(flatten)]
    nats: NatsOptions,
    /// Seconds to wait for a member's answer.
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

/// Asks every member and prints the answers; the exit code is 0 when at least one member answered.
///
/// # Errors
/// When no NATS server can be reached, or no member list is received.
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
    // A closed pipe is no error: its reader has read enough.
    let _closed = std::io::stdout().write_all(oarlock_mesh::inspect::table(&reports).as_bytes());
    Ok(u8::from(reports.is_empty()))
}

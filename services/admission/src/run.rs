//! `oarlock admission`: evaluates admission policies on behalf of API servers, over NATS.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use oarlock_admission::policy;
use oarlock_bus::Role;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_config::{Kubeconfig, ServerTrust};
use oarlock_informer::GateSpawn;
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_runtime::{Phase, System};

use crate::args::Args;

/// Runs the admission stage until a signal. The process keeps no state and needs no API server to evaluate a policy: each request carries everything the
/// decision depends on.
///
/// # Errors
/// When no NATS server is named or none can be joined, or the actor system fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    let traces = oarlock_exporter::prepare(&args.tracing, "admission", oarlock_exporter::TracingState::Off)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let bound = oarlock_serving::bind(&args.serving, args.secure_port, "oarlock-admission").await?;
    let (client, trust) = api(&system, args.kubeconfig.as_deref())?.unzip();
    let name = oarlock_mesh::member_name("admission", &oarlock_config::host_name()?);
    let bus = oarlock_mesh::join(&system, &args.nats, Role::Admission, &name).await?;
    let bus = bus.context("--nats-servers is missing: API servers ask over the bus")?;
    let ready = vec![oarlock_serving::checks::bus(&bus)];
    policy::serve(&system, bus, args.max_reviews).await?;
    let parts = oarlock_serving::Parts { client, trust, kinds: Vec::new(), ready };
    oarlock_serving::serve(&system, bound, parts).await?;
    tracing::info!(member = name, "judges writes");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

/// Returns the client that authorizes requests to this process's own server, with the authorities to trust for client certificates; `None` without a
/// kubeconfig.
fn api(system: &System, kubeconfig: Option<&Path>) -> anyhow::Result<Option<(Client, ServerTrust)>> {
    let Some(path) = kubeconfig else { return Ok(None) };
    let resolved = Kubeconfig::read(path)?.resolve(None)?;
    let endpoint = Endpoint::new(&resolved, concat!("oarlock-admission/", env!("CARGO_PKG_VERSION")))?;
    let connections = system.gate("client", Phase::Informers);
    let client = Client::new(Arc::new(Https::new(endpoint, Arc::new(GateSpawn(connections)))?));
    Ok(Some((client, resolved.trust)))
}

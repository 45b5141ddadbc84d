//! `oarlock scheduler`: the scheduler in a process of its own, over HTTPS.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_bus::Role;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_informer::{GateSpawn, REFLECTOR};
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_runtime::{Phase, System};
use oarlock_scheduler::{Config, SCHEDULER, Scheduler};

use crate::args::Args;

/// Runs the scheduler until a signal.
///
/// # Errors
/// When the kubeconfig is unusable, the scheduler cannot be started, or it fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    let traces = oarlock_exporter::prepare(&args.tracing, "kube-scheduler", oarlock_exporter::TracingState::Off)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let bound = oarlock_serving::bind(&args.serving, args.secure_port, "kube-scheduler").await?;
    let resolved = args.api.read()?;
    let endpoint = Endpoint::new(&resolved, concat!("kube-scheduler/", env!("CARGO_PKG_VERSION")))?;
    let connections = system.gate("client", Phase::Informers);
    let client = Client::new(Arc::new(Https::new(endpoint, Arc::new(GateSpawn(connections)))?));
    let name = oarlock_mesh::member_name("scheduler", &oarlock_config::host_name()?);
    let bus = oarlock_mesh::join(&system, &args.nats, Role::Scheduler, &name).await?;
    let units = oarlock_scheduler::units();
    let member = oarlock_placement::Options { role: "scheduler", units, outside: Vec::new(), name, bus: bus.clone() };
    let placement = oarlock_placement::start(&system, client.clone(), member).await?;
    let parts = oarlock_serving::Parts {
        client: Some(client.clone()),
        trust: Some(resolved.trust.clone()),
        kinds: vec![&SCHEDULER, &REFLECTOR],
        ready: oarlock_serving::checks::of_crew(&placement, bus.as_ref()),
    };
    let config = Config { names: args.scheduler_name, max_binds: args.max_binds, placement, bus };
    Scheduler::spawn(&system, client, config).await?;
    oarlock_serving::serve(&system, bound, parts).await?;
    tracing::info!(servers = ?resolved.servers().collect::<Vec<_>>(), "scheduler runs");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

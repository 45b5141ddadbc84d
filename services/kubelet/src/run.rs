//! `oarlock kubelet`: one node (this machine or a simulated one) or many simulated nodes in a process of their own, over HTTPS.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_bus::Role;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_informer::GateSpawn;
use oarlock_kubelet::{Fleet, NodeConfig};
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_runtime::{Phase, System};

use crate::args::Args;
use crate::identity::Identities;
use crate::machine::own_address;
use crate::serve;

/// Runs the kubelets until a signal.
///
/// # Errors
/// When the kubeconfig is unusable, a node has no identity, or a kubelet cannot be started.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    let traces = oarlock_exporter::prepare(&args.tracing, "kubelet", oarlock_exporter::TracingState::Off)?;
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    traces.export(&system).await?;
    let identities = Identities::open(&args.api, args.data_dir.as_deref())?;
    anyhow::ensure!(
        args.count == 1 || identities.tell_apart(),
        "--count {}: each node acts as itself, which needs a folder of kubeconfigs, or --data-dir",
        args.count
    );
    let real = args.runtime == "containerd";
    anyhow::ensure!(!real || args.count == 1, "--count {}: this machine is one node", args.count);
    let connections = Arc::new(GateSpawn(system.gate("client", Phase::Informers)));
    let fleet = Fleet::new(system.clone());
    let node_ip = args.machine.node_ip.or_else(|| own_address().filter(|_| real));
    let bound = serve::bind(&args.serve, node_ip).await?;
    if let Some(path) = &args.pod_manifest_path {
        fleet.follow_manifests(path.clone()).await?;
    }
    let names = names(&args, identities.own(), identities.tell_apart())?;
    for (index, name) in names.iter().enumerate() {
        let endpoint = Endpoint::new(&identities.node(name)?, concat!("kubelet/", env!("CARGO_PKG_VERSION")))?;
        let client = Client::new(Arc::new(Https::new(endpoint, connections.clone())?));
        let config = match real {
            true => args.machine.node(name).await?,
            false => {
                NodeConfig { internal_ip: bound.node_ip, ..NodeConfig::simulated(name.as_str(), u16::try_from(index)?) }
            }
        };
        oarlock_mesh::join(&system, &args.nats.of_node(&config.name), Role::Node, &config.name).await?;
        let internal_dns = args.serve.node_dns.as_deref().map(Into::into);
        fleet.add(client, NodeConfig { port: bound.port, internal_dns, ..config }).await?;
    }
    let api = identities.node(names.first().map_or("", String::as_str))?;
    serve::start(&system, &fleet, &args.serve, bound, &api, identities.signer()).await?;
    tracing::info!(servers = ?api.servers().collect::<Vec<_>>(), nodes = args.count, runtime = %args.runtime, "kubelets run");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

fn names(args: &Args, own: Option<String>, any: bool) -> anyhow::Result<Vec<String>> {
    if args.count > 1 {
        return Ok((0..args.count).map(|index| format!("{}{index}", args.name_prefix)).collect());
    }
    let name = match (&args.node_name, own) {
        (Some(name), _) => name.clone(),
        (None, Some(own)) if !any => own,
        (None, _) => oarlock_config::host_name()?,
    };
    Ok(vec![name])
}

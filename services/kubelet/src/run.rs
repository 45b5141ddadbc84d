//! `oarlock kubelet`: one node, this machine or a simulated one, or many simulated ones, in a process of their own, over HTTPS.

use std::sync::Arc;

use oarlock_bus::Role;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_informer::GateSpawn;
use oarlock_kubelet::{Fleet, NodeConfig};
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_runtime::{Phase, System};

use crate::args::Args;
use crate::identity::{self, Signer};
use crate::machine::own_address;
use crate::serve;

/// Runs until a signal.
///
/// # Errors
/// When the kubeconfig is unusable, there is no identity for a node, or a kubelet cannot be started.
pub async fn run(args: Args) -> anyhow::Result<u8> {
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    let resolved = args.api.read()?;
    let signer = args.data_dir.as_deref().map(Signer::open).transpose()?;
    anyhow::ensure!(
        args.count == 1 || signer.is_some(),
        "--count {}: each node acts as itself, which needs --data-dir",
        args.count
    );
    let real = args.runtime == "containerd";
    anyhow::ensure!(!real || args.count == 1, "--count {}: this machine is one node", args.count);
    let own = identity::node_name(&resolved);
    let connections = Arc::new(GateSpawn(system.gate("client", Phase::Informers)));
    let fleet = Fleet::new(system.clone());
    let node_ip = args.machine.node_ip.or_else(|| own_address().filter(|_| real));
    let bound = serve::bind(&args.serve, node_ip).await?;
    if let Some(path) = &args.pod_manifest_path {
        fleet.follow_manifests(path.clone()).await?;
    }
    for (index, name) in names(&args, own, signer.is_some())?.into_iter().enumerate() {
        let endpoint = match &signer {
            Some(signer) => signer.node(&resolved, &name)?,
            None => resolved.clone(),
        };
        let endpoint = Endpoint::new(&endpoint, concat!("kubelet/", env!("CARGO_PKG_VERSION")))?;
        let client = Client::new(Arc::new(Https::new(endpoint, connections.clone())?));
        let config = match real {
            true => args.machine.node(&name).await?,
            false => NodeConfig { internal_ip: bound.node_ip, ..NodeConfig::simulated(name, u16::try_from(index)?) },
        };
        oarlock_mesh::join(&system, &args.nats.of_node(&config.name), Role::Node, &config.name).await?;
        fleet.add(client, NodeConfig { port: bound.port, ..config }).await?;
    }
    serve::start(&system, &fleet, &args.serve, bound, &resolved, signer.as_ref()).await?;
    tracing::info!(servers = ?resolved.servers().collect::<Vec<_>>(), nodes = args.count, runtime = %args.runtime, "kubelets run");
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

fn names(args: &Args, own: Option<String>, signs: bool) -> anyhow::Result<Vec<String>> {
    if args.count > 1 {
        return Ok((0..args.count).map(|index| format!("{}{index}", args.name_prefix)).collect());
    }
    let name = match (&args.node_name, own) {
        (Some(name), _) => name.clone(),
        (None, Some(own)) if !signs => own,
        (None, _) => oarlock_config::host_name()?,
    };
    Ok(vec![name])
}

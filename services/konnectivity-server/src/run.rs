//! `oarlock konnectivity-server`: the tunnel's server in a process of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use oarlock_client::{Client, Endpoint, Https};
use oarlock_config::Kubeconfig;
use oarlock_informer::GateSpawn;
use oarlock_konnectivity::{
    Authenticate, ClientCertificate, LeaseOptions, Limits, Server, ServerOptions, ServiceAccountToken, check_id,
};
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_runtime::{Phase, System, rng};
use oarlock_serving::check::Check;
use oarlock_serving::open::{self, Scope};

use crate::args::Args;
use crate::{peers, sockets};

/// Environment variable with the id of the server (upstream's).
const SERVER_ID_VARIABLE: &str = "PROXY_SERVER_ID";

/// Runs the tunnel's server until a signal.
///
/// # Errors
/// When flags contradict one another, a file is unusable, an address is taken, or the server fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    let (agents, tls) = sockets::agents(&args).await?;
    let forwarded = peers::socket(&args).await?;
    let health = open::bind(args.health_bind_address, args.health_port).await;
    let health = health.with_context(|| format!("--health-port {}", args.health_port))?;
    let admin = open::bind(args.admin_bind_address, args.admin_port).await;
    let admin = admin.with_context(|| format!("--admin-port {}", args.admin_port))?;
    let client = args.kubeconfig.as_deref().map(|file| client(&system, file)).transpose().context("--kubeconfig")?;
    let id = args.server_id.clone().or_else(|| std::env::var(SERVER_ID_VARIABLE).ok().filter(|id| !id.is_empty()));
    let id = id.unwrap_or_else(|| rng::uuid().to_string());
    check_id(&id).context("--server-id")?;
    let options = ServerOptions {
        id: id.clone(),
        count: args.server_count,
        strategies: args.proxy_strategies.clone(),
        limits: Limits::SERVER,
        authenticate: authenticate(&args, client.as_ref()),
        keepalive: args.keepalive_time,
        peers: peers::servers(&args)?,
    };
    // Last, because it may delete the socket of a server that still runs.
    let frontends = sockets::frontends(&args).await?;
    tracing::info!(id, ?frontends, agents = %agents.local_addr()?, "tunnel server runs");
    let server = Server::new(&system, options);
    if let Some(socket) = health {
        let counted = server.clone();
        let connected = move || if counted.agents() > 0 { Ok(()) } else { Err("no agent is connected".to_owned()) };
        open::serve(&system, socket, Scope::Health, vec![Check::new("agents", connected)]).await?;
    }
    if let Some(socket) = admin {
        open::serve(&system, socket, Scope::Admin, Vec::new()).await?;
    }
    server.listen_agents(agents, Some(tls)).await?;
    if let Some((socket, tls)) = forwarded {
        server.listen_peers(socket, tls).await?;
    }
    server.listen_frontends_on(frontends, args.mode).await?;
    if let Some(client) = client.filter(|_| args.enable_lease_controller) {
        let options = LeaseOptions { namespace: args.lease_namespace.clone(), labels: args.lease_label.clone() };
        let counted = server.count_by_leases(&client, options).await;
        counted.with_context(|| format!("--server-id {id:?} with --enable-lease-controller"))?;
    }
    let end = shutdown::run(&system, signals, Graces::default()).await;
    if let Some(path) = &args.uds_name
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!(path = %path.display(), %error, "the socket is left");
    }
    match end {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

/// Returns the check of agents that the flags ask for.
fn authenticate(args: &Args, client: Option<&Client>) -> Arc<dyn Authenticate> {
    match (&args.agent_namespace, &args.agent_service_account, &args.authentication_audience, client) {
        (Some(namespace), Some(name), Some(audience), Some(client)) => {
            Arc::new(ServiceAccountToken::new(client.clone(), namespace, name, audience.clone()))
        }
        // The socket of agents has verified the certificate.
        _ => Arc::new(ClientCertificate),
    }
}

/// Returns a client of the API server that a kubeconfig names.
fn client(system: &System, kubeconfig: &Path) -> anyhow::Result<Client> {
    let resolved = Kubeconfig::read(kubeconfig).and_then(|file| file.resolve(None))?;
    let endpoint = Endpoint::new(&resolved, concat!("konnectivity-server/", env!("CARGO_PKG_VERSION")))?;
    let connections = system.gate("client", Phase::Informers);
    Ok(Client::new(Arc::new(Https::new(endpoint, Arc::new(GateSpawn(connections)))?)))
}

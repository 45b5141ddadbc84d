//! `oarlock konnectivity-agent`: the tunnel's agent in a process of its own.

use std::sync::Arc;

use anyhow::{Context, ensure};
use futures::future::BoxFuture;
use oarlock_konnectivity::{Agent, AgentOptions, Limits, Token, TokenFile, check_id};
use oarlock_runtime::shutdown::{self, End, Graces};
use oarlock_runtime::{System, rng};
use oarlock_serving::check::Check;
use oarlock_serving::open::{self, Scope};

use crate::args::Args;
use crate::endpoint::endpoint;

/// Environment variable with the id of the agent (upstream's).
const AGENT_ID_VARIABLE: &str = "PROXY_AGENT_ID";

/// Runs the tunnel's agent until a signal. Then the agent asks the servers for no further connections, and gives those that are open 5 s to end.
///
/// # Errors
/// When a flag's value or file is unusable, an address is taken, or the agent fails.
pub fn run(args: Args) -> BoxFuture<'static, anyhow::Result<u8>> {
    Box::pin(run_until_signal(args))
}

async fn run_until_signal(args: Args) -> anyhow::Result<u8> {
    oarlock_telemetry::init_logs(&args.log, oarlock_telemetry::logs::Format::Text)?;
    let (interval, cap) = (args.sync_interval, args.sync_interval_cap);
    ensure!(interval <= cap, "--sync-interval {interval:?}: must not be longer than --sync-interval-cap {cap:?}");
    let token = args.service_account_token_path.clone().map(TokenFile);
    if let Some(token) = &token {
        token.read().await.context("--service-account-token-path")?;
    }
    let endpoint = endpoint(&args)?;
    let system = System::start(oarlock_runtime::Options::default()).await?;
    let signals = shutdown::signals(&system)?;
    let health = open::bind(args.health_server_host, args.health_server_port).await;
    let health = health.with_context(|| format!("--health-server-port {}", args.health_server_port))?;
    let admin = open::bind(args.admin_bind_address, args.admin_server_port).await;
    let admin = admin.with_context(|| format!("--admin-server-port {}", args.admin_server_port))?;
    let id = args.agent_id.or_else(|| std::env::var(AGENT_ID_VARIABLE).ok().filter(|id| !id.is_empty()));
    let id = id.unwrap_or_else(|| rng::uuid().to_string());
    check_id(&id).context("--agent-id")?;
    let options = AgentOptions {
        endpoint,
        id,
        identifiers: args.agent_identifiers,
        token: token.map(|token| Arc::new(token) as Arc<dyn Token>),
        limits: Limits::AGENT,
        sync_interval: interval,
        sync_interval_cap: cap,
        keepalive: args.keepalive_time,
        sync_forever: args.sync_forever,
    };
    tracing::info!(id = options.id, host = args.proxy_server_host, port = args.proxy_server_port, "tunnel agent runs");
    let agent = Agent::start(&system, options).await?;
    if let Some(socket) = health {
        let connected = move || match agent.servers().is_empty() {
            true => Err("no server is connected".to_owned()),
            false => Ok(()),
        };
        open::serve(&system, socket, Scope::Health, vec![Check::new("servers", connected)]).await?;
    }
    if let Some(socket) = admin {
        open::serve(&system, socket, Scope::Admin, Vec::new()).await?;
    }
    match shutdown::run(&system, signals, Graces::default()).await {
        End::Failed(fatal, _) => anyhow::bail!("{fatal}"),
        end => Ok(end.exit_code()),
    }
}

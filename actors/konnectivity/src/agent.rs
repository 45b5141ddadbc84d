//! The agent of a tunnel: connects to every server, and dials destinations for them.

mod connections;
mod endpoint;
mod session;
mod sync;
pub(crate) mod token;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::uri::PathAndQuery;
use oarlock_contracts::konnectivity::{AgentService, Packet};
use oarlock_runtime::kind::{Backoff, Exhausted, OnFailure};
use oarlock_runtime::{ActorKind, Failure, LoopCtx, LoopHandle, Phase, System, clock, rng};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::limits::{Limits, MAX_PACKET};
use crate::link::{MANY_CONNECTIONS, link};
use crate::metrics::{FAMILIES, Segment};
use crate::probes;
use crate::server::agents::{AGENT_ID, AGENT_IDENTIFIERS, AUTHORIZATION, BEARER, SERVER_COUNT, SERVER_ID};
use crate::window::{self, Windows};
use session::Session;
use sync::{Attempt, Sync};
use token::Token;

/// The kind of the agent's actor. An agent that fails is started again without limit: nobody else could reach its node.
pub(crate) static AGENT: ActorKind = ActorKind {
    name: "konnectivity.agent",
    phase: Phase::Crew,
    on_failure: OnFailure::Restart {
        backoff: Backoff::DEFAULT,
        max: u32::MAX,
        within: Duration::from_secs(60),
        then: Exhausted::GiveUp,
    },
    ..ActorKind::DEFAULT
};

/// The longest time from the dial of a server to its answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for which an agent that stops waits for its connections.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for the answer to a ping over HTTP/2 (gRPC's default).
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The share by which pauses vary at random, in percent (upstream's).
const JITTER_PERCENT: u32 = 10;

/// The configuration of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// The address of the servers, usually of their load balancer, with its TLS settings.
    pub endpoint: Endpoint,
    /// The agent's id. Two agents of one id take each other's connections.
    pub id: String,
    /// What the agent declares about itself, as the query of a URL ([`Identifiers`](crate::Identifiers)).
    pub identifiers: String,
    /// The token, unless a client certificate authenticates the agent.
    pub token: Option<Arc<dyn Token>>,
    /// Bounds.
    pub limits: Limits,
    /// The pause between two connections, and after the first failure (upstream: 1 s).
    pub sync_interval: Duration,
    /// The longest pause (upstream: 10 s).
    pub sync_interval_cap: Duration,
    /// The time without data after which a server is pinged over HTTP/2; it is lost when it does not answer within 20 s. Servers may refuse frequent pings
    /// (upstream's allows one in five minutes). The kernel's own probes find a lost host within 30 s, whatever this time is.
    pub keepalive: Duration,
    /// Whether the agent, connected to every server that it knows, still connects once in each [`AgentOptions::sync_interval_cap`] to learn whether there are more
    /// servers now (upstream `--sync-forever`). Otherwise it learns so when a connection ends.
    pub sync_forever: bool,
}

impl std::fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentOptions").field("id", &self.id).field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// A running agent.
#[derive(Clone, Debug)]
pub struct Agent {
    handle: LoopHandle,
    sessions: Arc<Sessions>,
}

/// The streams of an agent, by the id of their server.
#[derive(Debug, Default)]
struct Sessions {
    by_server: Mutex<BTreeMap<String, Arc<Session>>>,
    /// A stream has ended.
    changed: Notify,
}

/// State for `/debug/actors`.
#[derive(serde::Serialize)]
struct Observed {
    servers: Vec<String>,
    wanted: usize,
}

impl Agent {
    /// Starts an agent.
    ///
    /// # Errors
    /// When the runtime refuses the actor.
    pub async fn start(system: &System, options: AgentOptions) -> Result<Self, oarlock_runtime::Error> {
        // So that scrapes find the metrics before the first connection.
        LazyLock::force(&FAMILIES);
        let sessions = Arc::new(Sessions::default());
        let (shared, key) = (Arc::clone(&sessions), options.id.clone());
        let handle = system.spawn_loop(&AGENT, key, move |ctx| run(ctx, options.clone(), Arc::clone(&shared))).await?;
        Ok(Self { handle, sessions })
    }

    /// The handle of the agent's actor. An agent that is stopped first sends `DRAIN` to the servers, and gives its connections 5 s to end.
    #[must_use]
    pub const fn handle(&self) -> &LoopHandle {
        &self.handle
    }

    /// The ids of the servers that the agent is connected to. An agent without any is not ready.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        self.sessions.by_server.lock().keys().cloned().collect()
    }

    /// The number of dials and connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.sessions.by_server.lock().values().map(|session| session.count()).sum()
    }
}

async fn run(ctx: LoopCtx, options: AgentOptions, sessions: Arc<Sessions>) -> Result<(), Failure> {
    // Streams of an earlier incarnation ended with its gate.
    sessions.by_server.lock().clear();
    let mut sync = Sync::new(options.sync_interval, options.sync_interval_cap);
    loop {
        let servers: Vec<String> = sessions.by_server.lock().keys().cloned().collect();
        FAMILIES.known_servers.set(i64::try_from(sync.servers()).unwrap_or(i64::MAX));
        FAMILIES.open_servers.set(i64::try_from(servers.len()).unwrap_or(i64::MAX));
        let missing = sync.wants(servers.len());
        ctx.publish(&Observed { servers, wanted: sync.servers() });
        if !missing {
            let changed = sessions.changed.notified();
            let again = async {
                match options.sync_forever {
                    true => clock::sleep(rng::jitter(options.sync_interval_cap, JITTER_PERCENT)).await,
                    false => std::future::pending().await,
                }
            };
            let is_changed = async {
                tokio::select! {
                    () = changed => true,
                    () = again => false,
                }
            };
            match ctx.or_stop(is_changed).await {
                Some(true) => continue,
                Some(false) => {}
                None => break,
            }
        }
        let connecting = clock::timeout(CONNECT_TIMEOUT, connect(&options));
        let Some(connected) = ctx.or_stop(connecting).await else { break };
        let attempt = match connected.unwrap_or_else(|_| Err(format!("no answer within {CONNECT_TIMEOUT:?}"))) {
            Ok(connected) => begin(&ctx, &options, &sessions, &mut sync, connected)?,
            Err(error) => {
                FAMILIES.server_failures.inc();
                tracing::warn!(agent = options.id, error, "no connection to a tunnel server");
                Attempt::Failed
            }
        };
        if !ctx.sleep(rng::jitter(sync.after(attempt), JITTER_PERCENT)).await {
            break;
        }
    }
    tracing::info!(agent = options.id, "the agent stops, and asks the servers for no further connections");
    drain(&sessions).await;
    Ok(())
}

/// A stream that a server has accepted.
struct Connected {
    server: String,
    servers: usize,
    /// Flow control; absent if a side has not offered it.
    windows: Option<Windows>,
    session_link: crate::link::Link,
    packets: Streaming<Packet>,
    /// Keeps the connection open.
    channel: Channel,
}

async fn connect(options: &AgentOptions) -> Result<Connected, String> {
    let text = oarlock_telemetry::logs::chain;
    let endpoint = options.endpoint.clone().http2_keep_alive_interval(options.keepalive);
    let endpoint = endpoint.keep_alive_timeout(PING_TIMEOUT).keep_alive_while_idle(true).tcp_nodelay(true);
    let endpoint = endpoint.tcp_keepalive(Some(probes::AFTER)).tcp_keepalive_interval(Some(probes::PAUSE));
    let endpoint = endpoint.tcp_keepalive_retries(Some(probes::COUNT));
    let channel = endpoint.connect().await.map_err(|error| text(&error))?;
    let (session_link, outbound) = link(Segment::AGENT_SENDS, MANY_CONNECTIONS);
    let mut request = Request::new(outbound);
    let mut set = |key: &'static str, value: &str| match value.parse() {
        Ok(value) => drop(request.metadata_mut().insert(key, value)),
        // The value may be a token, and is not shown.
        Err(_) => tracing::warn!(key, "not sent, because it is no valid metadata"),
    };
    set(AGENT_ID, &options.id);
    set(AGENT_IDENTIFIERS, &options.identifiers);
    if let Some(window) = options.limits.window {
        set(window::OFFER, &window.to_string());
    }
    if let Some(token) = &options.token {
        let token = token.read().await.map_err(|error| format!("token: {error}"))?;
        set(AUTHORIZATION, &format!("{BEARER}{}", token.trim()));
    }
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MAX_PACKET);
    grpc.ready().await.map_err(|error| text(&error))?;
    let path = PathAndQuery::from_static(AgentService::CONNECT.path());
    let answer = grpc.streaming(request, path, ProstCodec::<Packet, Packet>::default()).await;
    let answer = answer.map_err(|status| explained(&status))?;
    let server = one(answer.metadata(), SERVER_ID)?.to_owned();
    let servers = one(answer.metadata(), SERVER_COUNT)?.parse().map_err(|_| format!("{SERVER_COUNT} is no number"))?;
    let offered = match answer.metadata().get(window::OFFER) {
        Some(_) => {
            let text = one(answer.metadata(), window::OFFER)?;
            Some(window::parse(text).ok_or_else(|| format!("{} {text:?} of the server is not valid", window::OFFER))?)
        }
        None => None,
    };
    let windows = Windows::agreed(options.limits.window, offered);
    Ok(Connected { server, servers, windows, session_link, packets: answer.into_inner(), channel })
}

/// Returns the text of a status with its causes: that of a broken connection does not name the TLS alert, which only its cause does.
fn explained(status: &Status) -> String {
    let message = status.message();
    match status.source().map(oarlock_telemetry::logs::chain) {
        Some(cause) if cause.starts_with(message) => cause,
        Some(cause) => format!("{message}: {cause}"),
        None => message.to_owned(),
    }
}

/// Returns the one value of a metadata key.
fn one<'a>(metadata: &'a MetadataMap, key: &'static str) -> Result<&'a str, String> {
    let mut values = metadata.get_all(key).iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(format!("the server did not send one {key}")),
    }
}

/// Serves a stream in a task, unless its server is connected already.
fn begin(
    ctx: &LoopCtx,
    options: &AgentOptions,
    sessions: &Arc<Sessions>,
    sync: &mut Sync,
    connected: Connected,
) -> Result<Attempt, Failure> {
    let Connected { server, servers, windows, session_link, packets, channel } = connected;
    let session = Session::new(session_link, options.limits, windows, ctx.gate().clone());
    sync.note_servers(servers);
    {
        let mut known = sessions.by_server.lock();
        if known.contains_key(&server) {
            return Ok(Attempt::Duplicate);
        }
        known.insert(server.clone(), Arc::clone(&session));
    }
    tracing::info!(agent = options.id, server, servers, "connected to a tunnel server");
    let (sessions, stop) = (Arc::clone(sessions), ctx.gate().token());
    let serve = async move {
        let reason = tokio::select! {
            biased;
            reason = session.serve(packets) => reason,
            () = stop.cancelled() => session.end("the agent stops"),
        };
        tracing::info!(server, reason, "connection to a tunnel server ended");
        sessions.by_server.lock().remove(&server);
        sessions.changed.notify_one();
        drop(channel);
    };
    ctx.spawn("server", serve)?;
    Ok(Attempt::Connected)
}

/// Sends `DRAIN` to the servers, waits for the connections to end, and ends the streams.
async fn drain(sessions: &Sessions) {
    let all: Vec<_> = sessions.by_server.lock().values().cloned().collect();
    for session in &all {
        session.drain();
    }
    let idle = futures::future::join_all(all.iter().map(|session| session.idle()));
    if clock::timeout(DRAIN_TIMEOUT, idle).await.is_err() {
        tracing::warn!("connections are cut, because the agent stops");
    }
    for session in &all {
        session.end("the agent stops");
    }
}

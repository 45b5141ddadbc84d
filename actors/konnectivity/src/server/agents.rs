//! The agents' side of the server: `AgentService`.

use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use oarlock_contracts::konnectivity::{AgentService, Packet};
use oarlock_runtime::clock;
use oarlock_serving::answer::Answer;
use oarlock_serving::listener::{Chain, Handler};
use tonic::metadata::MetadataMap;
use tonic::{Response, Status, Streaming};

use super::authenticate::Credentials;
use super::backend::Backend;
use super::grpc::{self, Packets};
use super::identifiers::Identifiers;
use super::{MAX_AGENTS, Server};
use crate::link::{MANY_CONNECTIONS, link};
use crate::metrics::{FAMILIES, Segment};
use crate::window::{self, Windows};

/// The metadata key of the agent's id.
pub(crate) const AGENT_ID: &str = "agentid";
/// The metadata key of the agent's identifiers.
pub(crate) const AGENT_IDENTIFIERS: &str = "agentidentifiers";
/// The metadata key of the agent's token.
pub(crate) const AUTHORIZATION: &str = "authorization";
/// What precedes a token.
pub(crate) const BEARER: &str = "Bearer ";
/// The metadata key of the server's id.
pub(crate) const SERVER_ID: &str = "serverid";
/// The metadata key of the number of servers.
pub(crate) const SERVER_COUNT: &str = "servercount";

/// The longest time for the check of an agent.
const AUTHENTICATE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest agent id and the longest identifiers, in bytes.
const MAX_TEXT: usize = 4096;

/// The handler of the agents' port.
#[derive(Clone, Debug)]
pub(super) struct AgentPort(pub(super) Server);

impl Handler for AgentPort {
    type Peer = Chain;

    fn peer(&self, chain: Option<Chain>) -> Chain {
        chain.unwrap_or_else(|| [].into())
    }

    fn keep_alive(&self) -> Duration {
        self.0.inner.options.keepalive
    }

    async fn answer(&self, chain: &Chain, request: Request<Incoming>) -> Answer {
        if request.uri().path() != AgentService::CONNECT.path() {
            return grpc::unknown();
        }
        let (server, chain) = (self.0.clone(), Chain::clone(chain));
        let method = Box::new(move |request| -> grpc::Answered {
            let (server, chain) = (server.clone(), Chain::clone(&chain));
            Box::pin(async move { connect(server, &chain, request).await })
        });
        grpc::serve(method, request).await
    }
}

/// Admits an agent, and answers with the server's id and the number of servers.
async fn connect(
    server: Server,
    chain: &Chain,
    request: tonic::Request<Streaming<Packet>>,
) -> Result<Response<Packets>, Status> {
    let metadata = request.metadata();
    let agent = one(metadata, AGENT_ID)?.filter(|id| !id.is_empty());
    let agent = agent.ok_or_else(|| Status::invalid_argument("expected one agent ID"))?.to_owned();
    let identifiers = Identifiers::parse(one(metadata, AGENT_IDENTIFIERS)?.unwrap_or_default());
    let token = match one(metadata, AUTHORIZATION)? {
        Some(value) => {
            let token = value.strip_prefix(BEARER);
            Some(token.ok_or_else(|| Status::unauthenticated("the authorization is no bearer token"))?)
        }
        None => None,
    };
    let invalid_offer = || Status::invalid_argument(format!("expected a valid {}", window::OFFER));
    let offered = one(metadata, window::OFFER)?;
    let offered = offered.map(|text| window::parse(text).ok_or_else(invalid_offer)).transpose()?;
    let credentials = Credentials { certificates: chain, token, agent: &agent, identifiers: &identifiers };
    let options = &server.inner.options;
    let checked = clock::timeout(AUTHENTICATE_TIMEOUT, options.authenticate.authenticate(&credentials)).await;
    if let Err(denied) = checked.map_err(|_| Status::unavailable("the check of the agent took too long"))? {
        tracing::warn!(agent, %denied, "agent refused");
        return Err(Status::unauthenticated(denied.to_string()));
    }
    if server.agents() >= MAX_AGENTS {
        return Err(Status::resource_exhausted("too many agents"));
    }
    let (link, outbound) = link(Segment::TO_AGENT, MANY_CONNECTIONS);
    let windows = Windows::agreed(options.limits.window, offered);
    let backend = Backend::new(agent, identifiers, link, options.limits, windows);
    let mut answer = grpc::answer(outbound);
    let id = options.id.parse().map_err(|_| Status::internal("the server's id is no metadata value"))?;
    answer.metadata_mut().insert(SERVER_ID, id);
    answer.metadata_mut().insert(SERVER_COUNT, server.count().into());
    if let Some(windows) = windows {
        answer.metadata_mut().insert(window::OFFER, windows.own.into());
    }
    let packets = request.into_inner();
    let (gate, serving) = (server.inner.gate.clone(), server.clone());
    let stop = gate.token();
    let serve = async move {
        let _counted = FAMILIES.grpc_connection("Connect");
        let key = serving.add(&backend);
        let reason = tokio::select! {
            biased;
            () = stop.cancelled() => "the tunnel server stops".to_owned(),
            () = backend.link().ended() => "the agent's stream has ended".to_owned(),
            reason = receive(&backend, packets) => reason,
        };
        serving.remove(key);
        backend.end(&reason);
    };
    gate.spawn("agent", serve).map_err(|_| Status::unavailable("the server stops"))?;
    Ok(answer)
}

/// Handles packets until the stream ends. Returns why it ended.
async fn receive(backend: &Backend, mut packets: Streaming<Packet>) -> String {
    loop {
        match packets.message().await {
            Ok(Some(packet)) => {
                Segment::FROM_AGENT.packet(&packet);
                if let Err(violation) = backend.receive(packet) {
                    return format!("the agent broke the protocol: {violation}");
                }
            }
            Ok(None) => return "the agent has left".to_owned(),
            Err(status) => return format!("the agent was lost: {}", status.message()),
        }
    }
}

/// Returns the one value of a metadata key.
fn one<'a>(metadata: &'a MetadataMap, key: &'static str) -> Result<Option<&'a str>, Status> {
    let mut values = metadata.get_all(key).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.len() <= MAX_TEXT || key == AUTHORIZATION);
    match (text, values.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => Err(Status::invalid_argument(format!("expected one valid value of {key}"))),
    }
}

//! The kubelet's own server (upstream `pkg/kubelet/server`): logs, exec, attach and port-forward for the API server, health and statistics for any authorized
//! client.
//!
//! One server answers for all nodes of a process, so that thousands of simulated nodes need one port. The authority or `Host` header selects the node by its
//! name (Oarlock's API server sends it). For other hosts, a caller with rights at all nodes is served by the node that has the pod in the path. A process with
//! a single node needs neither.
//!
//! Callers authenticate with a client certificate of the cluster's authority or a token, which the API server reviews; the API server also decides their rights
//! to `nodes/<subresource>` ([`attributes`]). Anonymous requests are refused. The optional read-only port needs neither authentication nor authorization, and
//! serves only public data.
//!
//! The API server of the same process connects through an in-memory pipe instead of TLS ([`Server::connect`]).

mod answer;
mod attributes;
mod configz;
mod listener;
mod place;
mod proxy;
mod route;
mod stats;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::body::Incoming;
use oarlock_client::Client;
use oarlock_pki::ClientTrust;
use oarlock_runtime::gate::Gate;
use oarlock_runtime::{Phase, System};
use oarlock_seeded_bug::seeded_bug;
pub use oarlock_serving::access::User;
use oarlock_serving::access::{Access, Attributes, unauthorized};
use oarlock_serving::listener::{self as connections, Chain};
use oarlock_streams::BoxIo;
use oarlock_telemetry::traces::{self, traceparent};

use crate::fleet::{Fleet, KubeletHandle};
use answer::{Answer, Refusal};
use place::Choice;

pub(crate) use listener::LISTENER;

/// Buffer size in bytes, each way, of the pipe between the API server and a kubelet of the same process.
const PIPE_BYTES: usize = 64 << 10;
/// Node name in access reviews for requests that concern all nodes: the caller needs the right without a restriction to names.
const ALL_NODES: &str = "";

/// Origin of a request to the kubelet's server.
#[derive(Clone, Debug)]
pub enum Peer {
    /// From this process, as this user, to this node.
    Inside(Arc<User>, Box<KubeletHandle>),
    /// Over TLS, with these client certificates.
    Outside(Chain),
    /// At the read-only port.
    Reader,
}

/// The server of a process's kubelets. Clones share it.
#[derive(Clone, Debug)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    system: System,
    fleet: Fleet,
    access: Access,
    /// Gate for the tasks of pipes and of upgraded connections.
    streams: Gate,
    /// Whether `/metrics` answers with the metrics of the process. False where another server of the process does, so that no series is scraped twice.
    shows_metrics: bool,
}

/// The user of API servers at kubelets, as kubeadm names it.
const API_SERVER: &str = "kube-apiserver-kubelet-client";
/// The groups besides whose trace contexts count, as at API servers.
const TRACING_GROUPS: [&str; 2] = ["system:masters", "system:monitoring"];

/// Whether the trace contexts of a caller count: a sampled one makes the container runtime export spans.
fn is_trusted(user: &User) -> bool {
    let in_group = user.groups.iter().any(|group| TRACING_GROUPS.contains(&group.as_str()));
    user.name == API_SERVER || in_group || seeded_bug!("anybody_traces_the_runtime")
}

impl Server {
    /// Creates a server for the nodes of `fleet`. `clients` holds the authorities of client certificates; without it only tokens are accepted.
    #[must_use]
    pub fn new(system: &System, fleet: &Fleet, clients: Option<ClientTrust>) -> Self {
        Self::build(system, fleet, clients, true)
    }

    /// Creates a server for the nodes of a process whose API server shows the metrics of the process, and calls this server through [`Server::connect`].
    #[must_use]
    pub fn within(system: &System, fleet: &Fleet) -> Self {
        Self::build(system, fleet, None, false)
    }

    fn build(system: &System, fleet: &Fleet, clients: Option<ClientTrust>, shows_metrics: bool) -> Self {
        let streams = system.gate("kubelet.streams", Phase::Ingress);
        let (system, fleet, access) = (system.clone(), fleet.clone(), Access::new(clients));
        Self { inner: Arc::new(Inner { system, fleet, access, streams, shows_metrics }) }
    }

    /// Opens an HTTP/1.1 connection as `user` to the kubelet of `node`; `None` when this process has no such node.
    #[must_use]
    pub fn connect(&self, node: &str, user: User) -> Option<BoxIo> {
        let peer = Peer::Inside(Arc::new(user), Box::new(self.inner.fleet.node(node)?));
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let gate = self.inner.streams.clone();
        let serve = connections::connection(self.clone(), gate.token(), far, peer);
        // Spawning fails only while the process shuts down.
        gate.spawn("pipe", serve).ok()?;
        Some(Box::new(near))
    }

    /// Answers a request. The caller is authenticated first, so that unknown callers cannot probe how many nodes exist, and which.
    async fn try_answer(&self, peer: &Peer, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let (method, path) = (request.method(), request.uri().path());
        let user = match peer {
            Peer::Inside(user, node) => {
                self.authorize(node.client(), node.name(), user, method, path).await?;
                return self.route(node, Some(user), request).await;
            }
            Peer::Outside(chain) => Some(self.authenticate(chain, request.headers()).await?),
            Peer::Reader if attributes::is_public(path) => None,
            Peer::Reader => return Err(Refusal::not_found()),
        };
        let fleet = &self.inner.fleet;
        let host = place::host(request.uri(), request.headers());
        let chosen = match place::choose(&fleet.names(), host.as_deref()) {
            Choice::Node(name) => fleet.node(&name).ok_or_else(place::nobody)?,
            Choice::Any => {
                if let Some(user) = user.as_ref().filter(|_| !seeded_bug!("nodes_asked_for_nobody")) {
                    let any = self.any().ok_or_else(place::nobody)?;
                    self.authorize(any.client(), ALL_NODES, user, method, path).await?;
                }
                place::search(fleet, path).await?
            }
        };
        if let Some(user) = &user {
            self.authorize(chosen.client(), chosen.name(), user, method, path).await?;
        }
        self.route(&chosen, user.as_deref(), request).await
    }

    /// Answers a request of a caller who may make it. Calls to the container runtime carry the trace context of a [trusted](is_trusted) caller.
    async fn route(
        &self,
        node: &KubeletHandle,
        user: Option<&User>,
        request: Request<Incoming>,
    ) -> Result<Answer, Refusal> {
        let contexts = request.headers().get_all(traceparent::HEADER);
        let caller =
            traceparent::sole(contexts.iter().map(HeaderValue::as_bytes)).filter(|_| user.is_some_and(is_trusted));
        traces::within(caller, route::route(self, node, request)).await
    }

    /// Returns any node of the process, whose client sends the token and access reviews.
    fn any(&self) -> Option<KubeletHandle> {
        let fleet = &self.inner.fleet;
        fleet.names().iter().find_map(|name| fleet.node(name))
    }

    async fn authenticate(&self, chain: &Chain, headers: &HeaderMap) -> Result<Arc<User>, Refusal> {
        let any = self.any();
        let known = self.inner.access.authenticate(any.as_ref().map(KubeletHandle::client), chain, headers).await?;
        known.ok_or_else(unauthorized)
    }

    /// Refuses a user without the right at this node, or at [all nodes](ALL_NODES).
    async fn authorize(
        &self,
        client: &Client,
        node: &str,
        user: &Arc<User>,
        method: &Method,
        path: &str,
    ) -> Result<(), Refusal> {
        let (verb, subresources) = (attributes::verb(method), attributes::subresources(path));
        for subresource in &subresources {
            let asked = Attributes::Resource { resource: "nodes", subresource, name: node.to_owned() };
            let allowed = self.inner.access.may(client, user, verb, asked).await.map_err(|_| {
                let name = &user.name;
                let text = format!(
                    "Authorization error (user={name}, verb={verb}, resource=nodes, subresource={subresource})"
                );
                Refusal::new(500, text)
            })?;
            if allowed {
                return Ok(());
            }
        }
        let all = subresources.join(" ");
        let text = format!("Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{all}])\n", user.name);
        Err(Refusal::new(403, text))
    }
}

#[cfg(test)]
mod tests;

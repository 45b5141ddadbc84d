//! Forwarding: a dial for which this server has no agent goes to a server that has one (`docs/adr/0009-forwarding-between-tunnel-servers.md`).

pub(crate) mod port;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http::HeaderName;
use oarlock_runtime::{Instant, clock, rng};
use oarlock_streams::BoxIo;
use rustls_pki_types::ServerName;
use tokio::net::lookup_host;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use super::connection::Forwarded;
use super::is_address;
use super::strategy::{Strategy, host};
use crate::error::{DialError, Reason};
use crate::http_connect::HttpConnect;
use crate::metrics::FAMILIES;

/// The user that a server's certificate must name (its CN), so that other servers take forwarded dials from it. The name is that of upstream's server.
pub const SERVER_USER: &str = "system:konnectivity-server";

/// The header of a forwarded dial: the strategies that may choose the agent, in order, separated by commas.
const STRATEGIES: HeaderName = HeaderName::from_static("oarlock-proxy-strategies");
/// The most addresses of other servers that are asked for one dial.
const MAX_PEERS: usize = 16;
/// The longest time for the connections to other servers. Those that are not connected by then are not asked.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest time for the answer of one server, which waits 10 s for an agent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// The other servers of a tunnel, and this server's identity for them. Clones share it.
#[derive(Clone)]
pub struct Peers {
    servers: Arc<[PeerName]>,
    tls: TlsConnector,
}

/// The address of another server, or of several.
#[derive(Debug)]
struct PeerName {
    /// `host:port`.
    address: String,
    /// The host, which the certificate must be valid for.
    host: ServerName<'static>,
}

/// The text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a tunnel server: must be HOST:PORT")]
pub struct InvalidPeer(String);

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peers").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Peers {
    /// Names the servers (`host:port`). A host may have the addresses of several servers, this one among them: each is asked. `tls` must verify that a server is one
    /// of this tunnel, and present a certificate of the user [`SERVER_USER`].
    ///
    /// # Errors
    /// When a text is no address.
    pub fn new(servers: impl IntoIterator<Item = String>, mut tls: ClientConfig) -> Result<Self, InvalidPeer> {
        let named = |address: String| {
            let name = Some(host(&address)).filter(|_| is_address(&address));
            match name.and_then(|name| ServerName::try_from(name.to_owned()).ok()) {
                Some(host) => Ok(PeerName { address, host }),
                None => Err(InvalidPeer(address)),
            }
        };
        let servers = servers.into_iter().map(named).collect::<Result<_, _>>()?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { servers, tls: TlsConnector::from(Arc::new(tls)) })
    }

    /// Checks the address of a server.
    ///
    /// # Errors
    /// When the text is no address.
    pub fn check(address: &str) -> Result<(), InvalidPeer> {
        is_address(address).then_some(()).ok_or_else(|| InvalidPeer(address.to_owned()))
    }

    /// Connects to an address through another server's agent that one of the strategies finds.
    pub(super) async fn dial(
        &self,
        strategies: &[Strategy],
        address: &str,
        deadline: Instant,
    ) -> Result<Forwarded, DialError> {
        let dialled = self.try_dial(strategies, address, deadline).await;
        FAMILIES.forwarded_dial(match &dialled {
            Ok(_) => "established",
            Err(error) if error.reason() == Reason::NoAgent => "no_agent",
            Err(_) => "failed",
        });
        dialled.map(Forwarded::new)
    }

    /// Connects to all servers at once, and asks them one by one as they are connected, so that the destination is dialled once. A server that cannot be reached holds up
    /// none of the others, and one that does not answer for [`ANSWER_TIMEOUT`] at most.
    async fn try_dial(&self, strategies: &[Strategy], address: &str, deadline: Instant) -> Result<BoxIo, DialError> {
        let strategies = strategies.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let connect_by = clock::after(CONNECT_TIMEOUT).min(deadline);
        let (servers, mut unreachable) = self.resolve(connect_by).await;
        let connect = async |server: HttpConnect| (server.connect(connect_by).await, server);
        let mut connecting: FuturesUnordered<_> = servers.into_iter().map(connect).collect();
        let (mut failed, mut asked) = (None, 0_usize);
        while let Some((connected, server)) = connecting.next().await {
            let io = match connected {
                Ok(io) => io,
                Err(error) => {
                    unreachable.push(format!("{server}: {error}"));
                    continue;
                }
            };
            asked += 1;
            let answer_by = clock::after(ANSWER_TIMEOUT).min(deadline);
            match server.ask(io, address, Some((STRATEGIES, strategies.as_str())), answer_by).await {
                Ok(io) => return Ok(io),
                Err(error) if error.reason() == Reason::NoAgent => {}
                Err(error) if error.is_of_the_agent() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        if !unreachable.is_empty() {
            tracing::warn!(address, servers = unreachable.join("; "), "tunnel servers are not reachable");
        }
        Err(failed.unwrap_or_else(|| {
            let unreachable = unreachable.len();
            let text = format!(
                "no agent is available for {address}, neither here nor at {asked} other servers ({unreachable} not reachable)"
            );
            DialError::new(Reason::NoAgent, text)
        }))
    }

    /// Returns the servers' addresses in random order, and the names that have none.
    async fn resolve(&self, deadline: Instant) -> (Vec<HttpConnect>, Vec<String>) {
        let lookups = join_all(self.servers.iter().map(|server| lookup_host(server.address.clone())));
        let Ok(found) = clock::timeout_at(deadline, lookups).await else {
            return (Vec::new(), vec!["the names of the servers were not resolved in time".to_owned()]);
        };
        let (mut servers, mut unknown): (Vec<(SocketAddr, &PeerName)>, _) = (Vec::new(), Vec::new());
        for (name, addresses) in self.servers.iter().zip(found) {
            match addresses {
                Ok(addresses) => {
                    for address in addresses {
                        if servers.iter().all(|(known, _)| *known != address) {
                            servers.push((address, name));
                        }
                    }
                }
                Err(error) => unknown.push(format!("{}: {error}", name.address)),
            }
        }
        rng::with(|rng| rng.shuffle(&mut servers));
        servers.truncate(MAX_PEERS);
        let server = |(address, name): (SocketAddr, &PeerName)| {
            HttpConnect::Tls(address.to_string(), self.tls.clone(), name.host.clone())
        };
        (servers.into_iter().map(server).collect(), unknown)
    }
}

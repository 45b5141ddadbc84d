//! The tunnel to nodes that can only dial out, in the protocol of upstream's konnectivity (apiserver-network-proxy).
//!
//! Agents run where the destinations are, and dial the [`Server`]. Whoever wants to reach a destination asks the server, which asks an agent:
//!
//! ```text
//! Dialer ── in process, gRPC or HTTP CONNECT ──▶ Server ◀── gRPC, one stream for all connections ── Agent ── TCP ──▶ destination
//! ```
//!
//! - [`Server`] chooses the agent of each connection by [strategies](Strategy). Frontends are the API servers' side: gRPC (`ProxyService`) and HTTP `CONNECT`.
//!   Dials for which a server has no agent are forwarded to [`Peers`] that have one.
//! - [`Agent`] connects to as many servers as there are, or to some of them, and dials destinations.
//! - [`Dialer`] is the client: it returns a connection to an address.
//!
//! Upstream's protocol has no window, so a receiver cannot slow down the sender of one connection without slowing down all. Between a [`Server`] and an [`Agent`] each
//! connection has a [window](Limits::window) of credit, which its reader gives back: a slow reader slows its own sender down, and the others go on. With a peer of
//! upstream's each connection has a bounded [buffer](Limits::buffer). A connection whose reader is so slow that the buffer is full is reset, both sides get an error,
//! and the others go on.
//!
//! The protocol has no half-close either. A dialer that closes its direction (`CLOSE_REQ`) still receives what the destination sends until the destination closes
//! too, until nothing has moved for [`CLOSE_TIMEOUT`] (with a peer of upstream's: for at most this time); a second `CLOSE_REQ` says that nothing more is wanted. When the destination closes first (`CLOSE_RSP`), both directions end.

mod agent;
mod client;
mod error;
mod http_connect;
mod id;
mod inbound;
mod limits;
mod link;
mod metrics;
mod packet;
mod probes;
mod server;
mod window;

pub use agent::token::{Token, TokenFile};
pub use agent::{Agent, AgentOptions};
pub use client::Dialer;
pub use error::{DialError, Reason};
pub use http_connect::HttpConnect;
pub use id::{InvalidId, check_id};
pub use limits::{CLOSE_TIMEOUT, Limits};
pub use server::authenticate::service_account::ServiceAccountToken;
pub use server::authenticate::{Authenticate, ClientCertificate, Credentials, Denied};
pub use server::connection::{Connection, Forwarded};
pub use server::frontend::{Mode, ParseModeError};
pub use server::identifiers::{Identifiers, InvalidIdentifier};
pub use server::leases::{InvalidLabel, LeaseOptions};
pub use server::peers::{InvalidPeer, Peers, SERVER_USER};
pub use server::strategy::{ParseStrategyError, Strategy};
pub use server::stream::TunnelStream;
pub use server::{Server, ServerOptions};

use oarlock_runtime::ActorKind;

/// The actor kinds of this crate.
pub static KINDS: &[&ActorKind] = &[
    &agent::AGENT,
    &server::AGENT_LISTENER,
    &server::FRONTEND_LISTENER,
    &server::PEER_LISTENER,
    &server::leases::LEASE,
];

//! The client of a tunnel: connects to an address behind it.

mod grpc;

use std::path::Path;

use oarlock_runtime::Instant;
use oarlock_streams::BoxIo;
use oarlock_telemetry::logs::chain;
use tonic::transport::Endpoint;

use crate::error::{DialError, Reason};
use crate::http_connect::HttpConnect;
use crate::server::Server;

/// A way into the tunnel.
#[derive(Clone, Debug)]
pub enum Dialer {
    /// A server of this process, without a socket.
    InProcess(Server),
    /// gRPC. Every connection has a transport of its own, so that none waits for another one.
    Grpc(Box<Endpoint>),
    /// HTTP `CONNECT`.
    HttpConnect(HttpConnect),
}

impl Dialer {
    /// Returns the way by gRPC to a server that listens on the Unix socket `path`.
    ///
    /// # Errors
    /// [`Reason::Invalid`] when the path cannot be written as a URI.
    pub fn grpc_unix(path: &Path) -> Result<Self, DialError> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", path.display()));
        let invalid = |error: tonic::transport::Error| DialError::new(Reason::Invalid, chain(&error));
        Ok(Self::Grpc(Box::new(endpoint.map_err(invalid)?)))
    }

    /// Connects to `address`, which is `host:port`. The connection's `shutdown` closes the direction to the destination; dropping it closes both.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn dial(&self, address: &str, deadline: Instant) -> Result<BoxIo, DialError> {
        match self {
            Self::InProcess(server) => Ok(Box::new(server.dial(address, deadline).await?)),
            Self::Grpc(endpoint) => Ok(Box::new(grpc::dial(endpoint, address, deadline).await?)),
            Self::HttpConnect(proxy) => proxy.dial(address, deadline).await,
        }
    }
}

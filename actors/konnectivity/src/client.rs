//! The client of a tunnel: connects to an address behind it.

mod grpc;
mod http_connect;

use oarlock_runtime::Instant;
use oarlock_streams::BoxIo;
use tonic::transport::Endpoint;

pub use http_connect::HttpConnect;

use crate::error::DialError;
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

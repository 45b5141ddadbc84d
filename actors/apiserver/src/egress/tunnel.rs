//! Connections through a tunnel server.

use std::path::Path;

use oarlock_konnectivity::{DialError, Dialer, HttpConnect, Reason};
use oarlock_runtime::{Instant, clock};
use oarlock_streams::BoxIo;

use super::Destination;
use super::metrics::{Stage, Way};

/// A tunnel server, and how it is reached. Every connection has a connection of its own to the tunnel server.
#[derive(Clone, Debug)]
pub struct Tunnel {
    dialer: Dialer,
    /// The network and address of the tunnel server, such as `unix /run/konnectivity.sock`.
    server: String,
    way: Way,
}

impl Tunnel {
    /// Returns a tunnel server that is reached by gRPC over the Unix socket `path`.
    ///
    /// # Errors
    /// When the path cannot be used.
    pub fn grpc(path: &Path) -> Result<Self, DialError> {
        let way = Way { protocol: "grpc", transport: "uds" };
        Ok(Self { dialer: Dialer::grpc_unix(path)?, server: format!("unix {}", path.display()), way })
    }

    /// Returns a tunnel server that is reached by HTTP `CONNECT`.
    #[must_use]
    pub fn http_connect(proxy: HttpConnect) -> Self {
        let (network, transport) = match proxy {
            HttpConnect::Unix(_) => ("unix", "uds"),
            HttpConnect::Plain(_) | HttpConnect::Tls(..) => ("tcp", "tcp"),
        };
        let (server, way) = (format!("{network} {proxy}"), Way { protocol: "http_connect", transport });
        Self { dialer: Dialer::HttpConnect(proxy), server, way }
    }

    /// Connects to one of the addresses of a destination.
    ///
    /// # Errors
    /// The text of the last failure, in the words of upstream's client where it has some.
    pub(super) async fn dial(&self, to: &Destination<'_>, deadline: Instant) -> Result<BoxIo, String> {
        let mut failed = format!("{} has no address", to.host);
        for address in to.addresses() {
            let begun = clock::now();
            self.way.started();
            let error = match self.dialer.dial(&address, deadline).await {
                Ok(io) => {
                    self.way.connected(begun.elapsed());
                    return Ok(io);
                }
                Err(error) => error,
            };
            if error.reason() == Reason::Unreachable {
                self.way.failed(Stage::Connect);
                return Err(format!("dial {}: {error}", self.server));
            }
            self.way.failed(Stage::Proxy);
            failed = error.to_string();
            if deadline.passed() {
                break;
            }
        }
        Err(failed)
    }
}

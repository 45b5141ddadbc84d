//! A server to connect to, and TCP connections to it.

use std::net::{IpAddr, SocketAddr};

use oarlock_runtime::{Instant, clock};
use oarlock_streams::BoxIo;
use tokio::net::TcpStream;

/// A server to connect to.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// A host name or an IP address.
    pub(super) host: &'a str,
    /// The port.
    pub(super) port: u16,
    /// Addresses of the host that have been checked, of which one is connected to. With `None` whoever dials resolves the host: this process, or the agent at
    /// the end of a tunnel.
    pub(super) at: Option<&'a [IpAddr]>,
}

impl<'a> Destination<'a> {
    /// Returns a port of a host, with the addresses of the host that may be connected to.
    #[must_use]
    pub const fn new(host: &'a str, port: u16, at: Option<&'a [IpAddr]>) -> Self {
        Self { host, port, at }
    }
}

impl Destination<'_> {
    /// Returns the host.
    pub(crate) const fn host(&self) -> &str {
        self.host
    }

    /// Returns the addresses to try, as `host:port`.
    pub(super) fn addresses(&self) -> Vec<String> {
        match self.at {
            Some(at) => at.iter().map(|ip| SocketAddr::new(*ip, self.port).to_string()).collect(),
            None => vec![authority(self.host, self.port)],
        }
    }

    /// Connects over TCP.
    ///
    /// # Errors
    /// A text like Go's.
    pub(super) async fn dial(&self, deadline: Instant) -> Result<BoxIo, String> {
        let connect = async {
            let stream = match self.at {
                Some(at) => {
                    let at: Vec<SocketAddr> = at.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect();
                    TcpStream::connect(at.as_slice()).await?
                }
                None => TcpStream::connect((self.host, self.port)).await?,
            };
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        let connected = match clock::timeout_at(deadline, connect).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => Err("i/o timeout".to_owned()),
        };
        connected.map(|stream| Box::new(stream) as BoxIo).map_err(|why| self.failure(&why))
    }

    /// Returns the text of a failure at this destination.
    pub(crate) fn failure(&self, why: &dyn std::fmt::Display) -> String {
        format!("dial tcp {}:{}: {why}", self.host, self.port)
    }
}

/// Joins a host and a port; an IPv6 address gets brackets.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

//! The pool of connections to all servers.
//!
//! Servers are used in turn. A server that cannot be reached, answers 503 or is not ready is paused, longer each time. After the pause it is probed in the background, while
//! calls continue on other servers until the probe succeeds; so is a server without an open connection. When every server is paused, all are tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::attempt::Failure;
use super::connection::{Connection, Spawn};
use super::endpoint::Error;
use super::error::ConnectError;
use super::names::{Lookup, Names};
use super::server::{Connector, Server};

pub(super) use super::connection::Stream;

/// Pool of connections to all servers of a transport.
pub(super) struct Pool {
    names: Arc<Names>,
    connector: Arc<Connector>,
    next: AtomicUsize,
}

impl Pool {
    pub(super) fn new(
        servers: &[String],
        name: Option<&str>,
        tls: Arc<rustls::ClientConfig>,
        spawn: Arc<dyn Spawn>,
    ) -> Result<Self, Error> {
        let names = Arc::new(Names::new(servers, name)?);
        // Clients that start together should not all begin with the first server.
        let start = getrandom::u32().unwrap_or(0) as usize % 1024;
        Ok(Self {
            names,
            connector: Arc::new(Connector { tls: Mutex::new(tls), spawn }),
            next: AtomicUsize::new(start),
        })
    }

    /// Returns the servers' addresses as configured.
    pub(super) fn servers(&self) -> Vec<String> {
        self.names.given()
    }

    /// Returns the error of a call that got no connection in time.
    pub(super) fn unreachable(&self) -> ConnectError {
        ConnectError::Deadline(self.servers().join(", "))
    }

    pub(super) fn renew(&self, tls: Arc<rustls::ClientConfig>) {
        *self.connector.tls.lock() = tls;
        for server in self.names.servers().0.iter() {
            server.forget();
        }
    }

    /// Whether `server`, which refused a call, is shutting down: it is not ready, or it sent a GOAWAY. Always false when there is no other server.
    pub(super) async fn ends(&self, server: &Server) -> bool {
        if self.names.servers().0.len() < 2 {
            return false;
        }
        match server.open() {
            Some(mut connection) => connection.ready().await.is_err(),
            None => true,
        }
    }

    /// Pauses `server` after a refusal. Returns whether another server may accept the call.
    pub(super) fn refused(&self, server: &Server) -> bool {
        let (servers, _) = self.names.servers();
        if servers.len() > 1 {
            server.failed(true);
        }
        servers.iter().any(|other| !std::ptr::eq(&**other, server) && !other.is_paused())
    }

    /// Returns a connection with room for a stream, to the next usable server.
    pub(super) async fn connection(&self) -> Result<(Connection, Arc<Server>), Failure> {
        let (mut servers, look) = self.names.servers();
        if look == Lookup::Never {
            self.names.look_up().await;
            servers = self.names.servers().0;
        } else if look == Lookup::Due {
            let names = Arc::clone(&self.names);
            self.connector.spawn.spawn(Box::pin(async move { names.look_up().await }));
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let ring = servers.iter().cycle().skip(turn % servers.len().max(1)).take(servers.len());
        let (good, bad): (Vec<&Arc<Server>>, Vec<&Arc<Server>>) = ring.partition(|server| !server.is_paused());
        let well = |server: &&Arc<Server>| !server.is_failing() && server.open().is_some();
        let covered = good.iter().any(well);
        let several = servers.len() > 1;
        let mut last = ConnectError::NoServer;
        for server in &good {
            if !server.is_failing()
                && let Some(connection) = server.open()
            {
                return Ok((connection, Arc::clone(server)));
            }
            // A lost host does not even refuse connections: while another server works, no call waits for it.
            if covered {
                let (server, connector) = (Arc::clone(server), Arc::clone(&self.connector));
                self.connector.spawn.spawn(Box::pin(async move { server.probe(&connector).await }));
                continue;
            }
            match server.reach(&self.connector, several).await {
                Ok(connection) => return Ok((connection, Arc::clone(server))),
                Err(why) => last = why,
            }
        }
        // No server is known to be ready; one that reports "not ready" may still answer calls.
        for server in good.into_iter().filter(|server| server.doubtful()).chain(bad) {
            match server.reach(&self.connector, false).await {
                Ok(connection) => return Ok((connection, Arc::clone(server))),
                Err(why) => last = why,
            }
        }
        Err(Failure::Unreachable(last))
    }
}

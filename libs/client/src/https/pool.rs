//! All connections to all servers: whose turn it is.
//!
//! Servers are used in turn. One that cannot be reached, answers 503 or is not ready is left to the others, for longer each time. When its time
//! is over it is looked after beside the calls, which go on at the others until it does better; so is one to which no connection is open.
//! Where no other is left, everybody is tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::attempt::Failure;
use super::connection::{Connection, Spawn};
use super::endpoint::Error;
use super::names::{Look, Names};
use super::server::{Means, Server};

pub(super) use super::connection::Stream;

/// See the module text.
pub(super) struct Pool {
    names: Arc<Names>,
    means: Arc<Means>,
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
        Ok(Self { names, means: Arc::new(Means { tls: Mutex::new(tls), spawn }), next: AtomicUsize::new(start) })
    }

    /// The servers' addresses, as they were given.
    pub(super) fn servers(&self) -> Vec<String> {
        self.names.given()
    }

    /// What to say when no connection was made in time.
    pub(super) fn unreachable(&self) -> String {
        format!("connect to {}: timed out", self.servers().join(", "))
    }

    pub(super) fn renew(&self, tls: Arc<rustls::ClientConfig>) {
        *self.means.tls.lock() = tls;
        for server in self.names.servers().0.iter() {
            server.forget();
        }
    }

    /// Whether `server`, which refused a call, is about to end: it says so, or has said goodbye. Asked only where there are others.
    pub(super) async fn ends(&self, server: &Server) -> bool {
        if self.names.servers().0.len() < 2 {
            return false;
        }
        match server.open() {
            Some(mut connection) => connection.ready().await.is_err(),
            None => true,
        }
    }

    /// `server` would not serve. Whether another may.
    pub(super) fn refused(&self, server: &Server) -> bool {
        let (servers, _) = self.names.servers();
        if servers.len() > 1 {
            server.failed(true);
        }
        servers.iter().any(|other| !std::ptr::eq(&**other, server) && !other.is_out())
    }

    /// A connection with room, to the next server that may serve.
    pub(super) async fn connection(&self) -> Result<(Connection, Arc<Server>), Failure> {
        let (mut servers, look) = self.names.servers();
        if look == Look::First {
            self.names.look_up().await;
            servers = self.names.servers().0;
        } else if look == Look::Again {
            let names = Arc::clone(&self.names);
            self.means.spawn.spawn(Box::pin(async move { names.look_up().await }));
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let ring = servers.iter().cycle().skip(turn % servers.len().max(1)).take(servers.len());
        let (good, bad): (Vec<&Arc<Server>>, Vec<&Arc<Server>>) = ring.partition(|server| !server.is_out());
        let well = |server: &&Arc<Server>| !server.ails() && server.open().is_some();
        let covered = good.iter().any(well);
        let several = servers.len() > 1;
        let mut last = String::from("no server");
        for server in &good {
            if !server.ails()
                && let Some(connection) = server.open()
            {
                return Ok((connection, Arc::clone(server)));
            }
            // A host that is gone does not even refuse: no call waits for it while another serves.
            if covered {
                let (server, means) = (Arc::clone(server), Arc::clone(&self.means));
                self.means.spawn.spawn(Box::pin(async move { server.look_after(&means).await }));
                continue;
            }
            match server.reach(&self.means, several).await {
                Ok(connection) => return Ok((connection, Arc::clone(server))),
                Err(why) => last = why,
            }
        }
        // Nobody is known to be ready. One that says it is not may serve all the same.
        for server in good.into_iter().filter(|server| server.doubtful()).chain(bad) {
            match server.reach(&self.means, false).await {
                Ok(connection) => return Ok((connection, Arc::clone(server))),
                Err(why) => last = why,
            }
        }
        Err(Failure::Unreachable(last))
    }
}

//! The list of servers: every configured address, and every address that a configured name resolves to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio::time::{Instant, timeout};

use super::connection::Base;
use super::endpoint::Error;
use super::server::Server;

/// Interval of name lookups.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of name lookups while a server fails; a restarted server may have another address.
const FAILING_LOOKUP_INTERVAL: Duration = Duration::from_secs(1);
/// Deadline of one name lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Servers, as a shared snapshot.
pub(super) type Servers = Arc<[Arc<Server>]>;

/// Resolver of the configured addresses to servers.
pub(super) struct Names {
    bases: Vec<Base>,
    known: Mutex<LookupState>,
    /// Locked during a lookup.
    lookup_lock: tokio::sync::Mutex<()>,
}

/// Servers found by the last lookup.
struct LookupState {
    servers: Servers,
    /// Whether any configured address is a name.
    has_names: bool,
    /// Time of the last lookup.
    looked_up: Option<Instant>,
}

/// Whether names must be looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// No lookup is due.
    NotDue,
    /// A lookup is due, in the background of calls.
    Due,
    /// No lookup was made yet.
    Never,
}

impl Names {
    pub(super) fn new(addresses: &[String], name: Option<&str>) -> Result<Self, Error> {
        if addresses.is_empty() {
            return Err(Error::Address { address: String::new(), reason: "there is none".to_owned() });
        }
        let bases = addresses.iter().map(|address| base(address, name)).collect::<Result<Vec<_>, _>>()?;
        let has_names = bases.iter().any(|base| base.address.is_none());
        // Before the first lookup, the connection resolves the name.
        let servers = bases.iter().cloned().map(Server::new).map(Arc::new).collect();
        let known = LookupState { servers, has_names, looked_up: None };
        Ok(Self { bases, known: Mutex::new(known), lookup_lock: tokio::sync::Mutex::default() })
    }

    /// Returns the addresses as configured.
    pub(super) fn given(&self) -> Vec<String> {
        self.bases.iter().map(ToString::to_string).collect()
    }

    /// Returns the servers, and whether a lookup is due.
    pub(super) fn servers(&self) -> (Servers, Lookup) {
        let known = self.known.lock();
        let age = || {
            if known.servers.iter().any(|server| server.is_failing()) {
                FAILING_LOOKUP_INTERVAL
            } else {
                LOOKUP_INTERVAL
            }
        };
        let look = match known.looked_up {
            None if known.has_names => Lookup::Never,
            Some(looked_up) if known.has_names && looked_up.elapsed() >= age() => Lookup::Due,
            _ => Lookup::NotDue,
        };
        (known.servers.clone(), look)
    }

    /// Looks up all names, unless a lookup is in progress. A name that cannot be resolved keeps its addresses.
    pub(super) async fn look_up(&self) {
        let Ok(_lookup_lock) = self.lookup_lock.try_lock() else { return };
        let before = self.known.lock().servers.clone();
        let mut servers: Vec<Arc<Server>> = Vec::new();
        for base in &self.bases {
            let old = |address: Option<SocketAddr>| {
                let same = |server: &&Arc<Server>| server.base.authority == base.authority;
                before
                    .iter()
                    .filter(same)
                    .find(|server| address.is_none_or(|a| server.base.address == Some(a)))
                    .cloned()
            };
            if base.address.is_some() {
                servers.extend(old(base.address));
                continue;
            }
            let found = timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((base.host.as_str(), base.port))).await;
            match found.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
                Ok(addresses) => {
                    let mut addresses: Vec<SocketAddr> = addresses.collect();
                    addresses.sort_unstable();
                    addresses.dedup();
                    let new = |address| Arc::new(Server::new(Base { address: Some(address), ..base.clone() }));
                    servers.extend(addresses.into_iter().map(|a| old(Some(a)).unwrap_or_else(|| new(a))));
                }
                Err(error) => {
                    tracing::warn!(host = base.host, %error, "server's name not resolved");
                    servers.extend(before.iter().filter(|s| s.base.authority == base.authority).cloned());
                }
            }
        }
        if servers.is_empty() {
            servers = before.to_vec();
        }
        let mut known = self.known.lock();
        (known.servers, known.looked_up) = (servers.into(), Some(Instant::now()));
    }
}

/// Parses an address.
fn base(address: &str, name: Option<&str>) -> Result<Base, Error> {
    let wrong = |reason: &str| Error::Address { address: address.to_owned(), reason: reason.to_owned() };
    let uri: http::Uri = address.parse().map_err(|e: http::uri::InvalidUri| wrong(&e.to_string()))?;
    if uri.scheme_str() != Some("https") {
        return Err(wrong("must begin with https://"));
    }
    let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name.unwrap_or(&host).to_owned()).map_err(|e| wrong(&e.to_string()))?;
    let port = authority.port_u16().unwrap_or(443);
    Ok(Base {
        port,
        address: host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port)),
        authority: authority.to_string(),
        prefix: uri.path().trim_end_matches('/').to_owned(),
        host,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn names_are_looked_up_sooner_while_a_server_fails() {
        let names = Names::new(&["https://localhost:1".to_owned()], None).unwrap();
        let look = || names.servers().1;
        assert!(look() == Lookup::Never);
        names.look_up().await;
        tokio::time::advance(LOOKUP_INTERVAL - FAILING_LOOKUP_INTERVAL).await;
        assert!(look() == Lookup::NotDue);
        names.servers().0.iter().for_each(|server| server.failed(false));
        assert!(look() == Lookup::Due, "its address may have changed");
        names.look_up().await;
        assert!(look() == Lookup::NotDue, "not at every call");
        tokio::time::advance(FAILING_LOOKUP_INTERVAL).await;
        assert!(look() == Lookup::Due);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_not_looked_up() {
        let names = Names::new(&["https://127.0.0.1:1".to_owned()], None).unwrap();
        names.servers().0.iter().for_each(|server| server.failed(false));
        tokio::time::advance(LOOKUP_INTERVAL).await;
        assert!(names.servers().1 == Lookup::NotDue);
    }
}

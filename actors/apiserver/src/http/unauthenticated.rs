//! Limits the connections over which no client has authenticated yet.
//!
//! Opening a connection needs no credential, and the bound on connections is shared by all clients. So one address may hold at most an eighth of that
//! bound in connections without an authenticated request. Many clients may share the address of a load balancer, but they authenticate, and
//! connections with an authenticated request do not count. Loopback addresses are exempt: they belong to a load balancer on this machine or to the
//! machine itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::clock;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Time after which an HTTP/2 connection without an authenticated request gets a GOAWAY: clients connect in order to send requests. HTTP/1.1 has its
/// time limit per request head instead.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of unauthenticated connections by address.
type Counts = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// Number of connections of each address over which no client has authenticated yet.
#[derive(Clone, Debug, Default)]
pub(super) struct UnauthenticatedConnections(Counts);

/// One unauthenticated connection, counted until a request over it is authenticated or the value is dropped.
#[derive(Debug)]
pub(super) struct UnauthenticatedConnection {
    slot: Mutex<Option<Slot>>,
    authenticated: watch::Sender<bool>,
}

/// The count of one connection, taken back when dropped.
#[derive(Debug)]
struct Slot {
    counts: Counts,
    address: IpAddr,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Returns the address under which a connection is counted: one host can choose from a whole /64 of IPv6 addresses. `None` for an exempt address.
fn counted_address(from: IpAddr) -> Option<IpAddr> {
    let address = match from.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        other => other,
    };
    (!address.is_loopback()).then_some(address)
}

impl UnauthenticatedConnections {
    /// Counts one more connection; `None` when its address has too many, given a bound of `most` connections in all (0: no bound).
    pub(super) fn enter(&self, from: IpAddr, most: usize) -> Option<UnauthenticatedConnection> {
        let slot = match counted_address(from).filter(|_| most > 0) {
            None => None,
            Some(address) => {
                let mut counts = self.0.lock();
                let count = counts.entry(address).or_default();
                // A new entry is zero, which is below every bound.
                if *count >= (most / 8).max(1) {
                    return None;
                }
                *count += 1;
                Some(Slot { counts: Arc::clone(&self.0), address })
            }
        };
        Some(UnauthenticatedConnection { slot: Mutex::new(slot), authenticated: watch::Sender::new(false) })
    }
}

impl UnauthenticatedConnection {
    /// Marks the connection as authenticated.
    pub(super) fn mark_authenticated(&self) {
        // Each request marks its connection, but only the first one wakes who waits.
        if self.authenticated.send_if_modified(|authenticated| !std::mem::replace(authenticated, true)) {
            let slot = self.slot.lock().take();
            drop(slot);
        }
    }

    /// Waits until the time for authentication and then `patience` are over; never returns once a request has been authenticated.
    pub(super) async fn overdue(&self, patience: Duration) {
        let mut authenticated = self.authenticated.subscribe();
        let in_time =
            clock::timeout(AUTHENTICATION_TIMEOUT + patience, authenticated.wait_for(|authenticated| *authenticated))
                .await
                .is_ok();
        if in_time {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_an_eighth_of_the_connections_until_it_authenticates() {
        let connections = UnauthenticatedConnections::default();
        let enter = |from: &str| connections.enter(from.parse().unwrap(), 80);
        let mut first: Vec<_> = (0..10).filter_map(|_| enter("192.0.2.1")).collect();
        assert_eq!(first.len(), 10);
        assert!(enter("192.0.2.1").is_none() && enter("::ffff:192.0.2.1").is_none(), "both are the same address");
        assert!(enter("192.0.2.2").is_some(), "and others are not");
        first[0].mark_authenticated();
        first[0].mark_authenticated();
        first.push(enter("192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none());
        drop(first);
        assert!(connections.0.lock().is_empty(), "nothing is kept of who has gone");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_loopback_has_no_bound() {
        let connections = UnauthenticatedConnections::default();
        let enter = |from: &str| connections.enter(from.parse().unwrap(), 8);
        let _one = enter("2001:db8::1").unwrap();
        assert!(enter("2001:db8::2").is_none() && enter("2001:db8:0:1::2").is_some());
        let local: Vec<_> = ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(enter).into_iter().flatten().collect();
        assert_eq!(local.len() + usize::from(enter("127.0.0.1").is_some()), 4);
        assert!(connections.enter("2001:db8::3".parse().unwrap(), 0).is_some(), "0 is no bound");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_authenticate_is_overdue_and_who_does_never_is() {
        let connections = UnauthenticatedConnections::default();
        let began = clock::now();
        let stranger = connections.enter([192, 0, 2, 1].into(), 80).unwrap();
        stranger.overdue(Duration::from_secs(5)).await;
        assert_eq!(began.elapsed(), AUTHENTICATION_TIMEOUT + Duration::from_secs(5));
        stranger.mark_authenticated();
        assert!(clock::timeout(10 * AUTHENTICATION_TIMEOUT, stranger.overdue(Duration::ZERO)).await.is_err());
    }
}

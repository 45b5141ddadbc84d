//! Connections over which nobody has said yet who they are.
//!
//! The bound on connections is for whoever comes first, and who connects needs no credential. One address may have an eighth of that bound in
//! connections that have brought no authenticated request; behind a balancer stand many clients with one address, who all authenticate, so
//! connections that have brought one do not count. A loopback address is a balancer's on this machine, or this machine's own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use oarlock_runtime::clock;
use parking_lot::Mutex;
use tokio::sync::watch;

/// A multiplexed connection is asked to go when it has brought no authenticated request for so long: clients connect in order to ask for
/// something. HTTP/1 has the time limit of each head.
const LONGEST: Duration = Duration::from_secs(10);

type Counts = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// How many connections each address has over which nobody has authenticated yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Newcomers(Counts);

/// One such connection; it counts until it is known whose it is, or it is dropped.
#[derive(Debug)]
pub(super) struct Newcomer {
    place: Mutex<Option<Place>>,
    known: watch::Sender<bool>,
}

#[derive(Debug)]
struct Place {
    counts: Counts,
    address: IpAddr,
}

impl Drop for Place {
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

/// The address that counts: one host has a whole /64 of IPv6 addresses to choose from.
fn counted(from: IpAddr) -> Option<IpAddr> {
    let address = match from.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        other => other,
    };
    (!address.is_loopback()).then_some(address)
}

impl Newcomers {
    /// One more connection; `None` when there are too many from its address, of `most` connections in all (0: no bound).
    pub(super) fn enter(&self, from: IpAddr, most: usize) -> Option<Newcomer> {
        let place = match counted(from).filter(|_| most > 0) {
            None => None,
            Some(address) => {
                let mut counts = self.0.lock();
                let count = counts.entry(address).or_default();
                // An entry that is new is zero, and below every bound.
                if *count >= (most / 8).max(1) {
                    return None;
                }
                *count += 1;
                Some(Place { counts: Arc::clone(&self.0), address })
            }
        };
        Some(Newcomer { place: Mutex::new(place), known: watch::Sender::new(false) })
    }
}

impl Newcomer {
    /// An authenticated request has come.
    pub(super) fn known(&self) {
        if !self.known.send_replace(true) {
            let place = self.place.lock().take();
            drop(place);
        }
    }

    /// When it has been time to authenticate, and as much more as `patience`; never once that has happened.
    pub(super) async fn overdue(&self, patience: Duration) {
        let mut known = self.known.subscribe();
        let in_time = clock::timeout(LONGEST + patience, known.wait_for(|known| *known)).await.is_ok();
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
        let newcomers = Newcomers::default();
        let enter = |from: &str| newcomers.enter(from.parse().unwrap(), 80);
        let mut first: Vec<_> = (0..10).filter_map(|_| enter("192.0.2.1")).collect();
        assert_eq!(first.len(), 10);
        assert!(enter("192.0.2.1").is_none() && enter("::ffff:192.0.2.1").is_none(), "both are the same address");
        assert!(enter("192.0.2.2").is_some(), "and others are not");
        first[0].known();
        first[0].known();
        first.push(enter("192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none());
        drop(first);
        assert!(newcomers.0.lock().is_empty(), "nothing is kept of who has gone");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_loopback_has_no_bound() {
        let newcomers = Newcomers::default();
        let enter = |from: &str| newcomers.enter(from.parse().unwrap(), 8);
        let _one = enter("2001:db8::1").unwrap();
        assert!(enter("2001:db8::2").is_none() && enter("2001:db8:0:1::2").is_some());
        let local: Vec<_> = ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(enter).into_iter().flatten().collect();
        assert_eq!(local.len() + usize::from(enter("127.0.0.1").is_some()), 4);
        assert!(newcomers.enter("2001:db8::3".parse().unwrap(), 0).is_some(), "0 is no bound");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_authenticate_is_overdue_and_who_does_never_is() {
        let newcomers = Newcomers::default();
        let began = clock::now();
        let stranger = newcomers.enter([192, 0, 2, 1].into(), 80).unwrap();
        stranger.overdue(Duration::from_secs(5)).await;
        assert_eq!(began.elapsed(), LONGEST + Duration::from_secs(5));
        stranger.known();
        assert!(clock::timeout(10 * LONGEST, stranger.overdue(Duration::ZERO)).await.is_err());
    }
}

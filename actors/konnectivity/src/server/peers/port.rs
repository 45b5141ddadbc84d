//! The port on which other servers forward dials.

use std::sync::Arc;

use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use oarlock_pki::{CertificateDer, Presented};
use oarlock_runtime::clock;
use oarlock_seeded_bug::seeded_bug;
use oarlock_serving::answer::{Answer, text};
use oarlock_serving::listener::{Chain, Handler};
use tokio::sync::Semaphore;

use super::{SERVER_USER, STRATEGIES};
use crate::limits::FRONTEND_DIAL_TIMEOUT;
use crate::server::strategy::Strategy;
use crate::server::{Server, http_connect};

/// The handler of the port on which other servers forward dials, as HTTP `CONNECT`. Dials are answered through agents of this server, and never forwarded again.
#[derive(Clone, Debug)]
pub(in crate::server) struct PeerPort {
    server: Server,
    /// Room for dials and connections of other servers.
    room: Arc<Semaphore>,
}

impl PeerPort {
    pub(in crate::server) fn new(server: Server, max: usize) -> Self {
        Self { server, room: Arc::new(Semaphore::new(max)) }
    }
}

impl Handler for PeerPort {
    /// Whether the client is a server, or why not.
    type Peer = Result<(), Arc<str>>;

    fn peer(&self, chain: Option<Chain>) -> Self::Peer {
        check(chain.as_deref().unwrap_or_default()).map_err(Arc::from)
    }

    async fn answer(&self, peer: &Self::Peer, request: Request<Incoming>) -> Answer {
        if let Err(why) = peer {
            tracing::warn!(%why, "forwarded dial refused");
            return text(403, why.to_string());
        }
        if request.method() != Method::CONNECT {
            return text(405, "this port takes dials that other tunnel servers forward, and nothing else");
        }
        let strategies = match strategies(request.headers()) {
            Ok(strategies) => strategies,
            Err(why) => return text(400, why),
        };
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            return text(503, "the tunnel server has too many connections of other servers");
        };
        let address = http_connect::address(&request);
        let dialled = self.server.dial_of_peer(&strategies, &address, clock::after(FRONTEND_DIAL_TIMEOUT)).await;
        http_connect::accept(&self.server, request, dialled, Some(place))
    }
}

/// Checks that a certificate, which the listener has verified, is one of a tunnel server. An authority may sign for others, too.
fn check(chain: &[CertificateDer<'_>]) -> Result<(), String> {
    let leaf = chain.first().ok_or("no client certificate")?;
    let presented = Presented::parse(leaf).map_err(|error| error.to_string())?;
    let user = presented.subject.common_name;
    if user == SERVER_USER || seeded_bug!("anybody_forwards_dials") {
        return Ok(());
    }
    Err(format!("the certificate is one of {user:?}, and tunnel servers are {SERVER_USER:?}"))
}

/// Reads the strategies of a forwarded dial.
fn strategies(headers: &HeaderMap) -> Result<Vec<Strategy>, String> {
    let value = headers.get(STRATEGIES).and_then(|value| value.to_str().ok());
    let value = value.ok_or_else(|| format!("expected the header {STRATEGIES}"))?;
    value
        .split(',')
        .map(|strategy| strategy.parse::<Strategy>().map_err(|error| format!("{STRATEGIES}: {error}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use oarlock_pki::{Authority, Leaf, Subject, UnixTime};

    use super::*;

    #[test]
    fn only_servers_forward() {
        let now = UnixTime::now();
        let authority = Authority::create("tunnel", now).unwrap();
        let certificate =
            |user| authority.issue(&Leaf::peer(Subject::named(user), Vec::new()), now).unwrap().certificate;
        assert_eq!(check(&[certificate(SERVER_USER)]), Ok(()));
        for user in ["kube-apiserver", "agent", "", "system:konnectivity-server2"] {
            let refused = check(&[certificate(user)]).unwrap_err();
            assert!(refused.contains(&format!("{user:?}")), "{refused}");
        }
        assert_eq!(check(&[]), Err("no client certificate".to_owned()));
        assert!(check(&[CertificateDer::from(vec![1])]).is_err());
    }

    #[test]
    fn strategies_are_named_in_order() {
        let read = |value: Option<&str>| {
            let headers = value.map(|value| (STRATEGIES, value.parse().unwrap())).into_iter();
            strategies(&headers.collect())
        };
        assert_eq!(read(Some("destHost,default")), Ok(vec![Strategy::DestHost, Strategy::Default]));
        for (wrong, named) in [(None, "oarlock-proxy-strategies"), (Some(""), "\"\""), (Some("nearest"), "\"nearest\"")]
        {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}

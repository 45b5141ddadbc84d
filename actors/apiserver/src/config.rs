//! Settings of one server, fixed at start.

use std::net::IpAddr;
use std::time::Duration;

use oarlock_runtime::Phase;
use oarlock_runtime::shutdown::Graces;

/// Settings of one API server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address under which clients reach this server, published as an endpoint of the `kubernetes` Service. Never a loopback address.
    pub advertise_address: IpAddr,
    /// Port of the HTTPS listener.
    pub port: u16,
    /// Range of the cluster IPs of Services.
    pub service_cidr: ipnet::IpNet,
    /// First and last port of the range for NodePort Services.
    pub node_ports: (u16, u16),
    /// How long Events are kept; zero keeps them until a client deletes them.
    pub event_ttl: Duration,
    /// Maximum duration of a request that is not a watch (upstream: 60 s).
    pub request_timeout: Duration,
    /// Fraction of the HTTP/2 requests after which the server sends a GOAWAY on the connection (upstream: at most 0.02).
    pub goaway_chance: f64,
    /// How the server shuts down.
    pub termination: Termination,
    /// Feature gates.
    pub features: oarlock_schema::FeatureGates,
    /// Largest body in bytes (upstream: 3 MiB).
    pub max_body: usize,
    /// Limits on concurrent requests and connections.
    pub limits: crate::inflight::Limits,
    /// Name of this server among the cluster's API servers; also the name of its identity Lease.
    pub identity: String,
    /// PEM of the cluster's certificate authority, which clients trust.
    pub ca_pem: String,
    /// PEM of the certificate authority that signs client certificates.
    pub client_ca_pem: String,
    /// PEM of the certificate authority of the front proxy.
    pub front_proxy_ca_pem: String,
    /// Issuer of ServiceAccount tokens.
    pub issuer: String,
    /// The JSON Web Key Set of the token keys.
    pub jwks: String,
}

impl Config {
    /// Returns the address of the `kubernetes` Service: the first of the range.
    #[must_use]
    pub fn first_service_ip(&self) -> Option<IpAddr> {
        self.service_cidr.hosts().next()
    }
}

/// Minimum number of watches that are ended per second (upstream: 200).
const MIN_WATCHES_PER_SECOND: u32 = 200;

/// Time for the steps that no flag bounds: leaving the endpoints, ending streams.
const UNBOUNDED_STEPS_MARGIN: Duration = Duration::from_secs(10);

/// Settings of a graceful shutdown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Termination {
    /// How long the server still serves after it has become unready.
    pub delay: Duration,
    /// Whether new requests are answered with 429 until the requests in flight are done.
    pub send_retry_after: bool,
    /// Period over which the ends of watches are spread; zero ends them at once.
    pub watches: Duration,
}

impl Termination {
    /// Returns the time limits of the shutdown phases of a process with such a server.
    #[must_use]
    pub fn graces(&self, request_timeout: Duration) -> Graces {
        let ingress = request_timeout * if self.send_retry_after { 2 } else { 1 };
        Graces::default()
            .with(Phase::Announce, self.delay + UNBOUNDED_STEPS_MARGIN)
            .with(Phase::Ingress, ingress + self.watches + UNBOUNDED_STEPS_MARGIN)
    }

    /// Returns the period over which the ends of `watches` watches are spread.
    #[must_use]
    pub(crate) fn spread(&self, watches: usize) -> Duration {
        let watches = u32::try_from(watches).unwrap_or(u32::MAX);
        self.watches.min(Duration::from_secs(1) * watches / MIN_WATCHES_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_watches_end_fast_and_many_within_the_grace() {
        let within = |seconds| Termination { watches: Duration::from_secs(seconds), ..Termination::default() };
        for (grace, watches, millis) in
            [(0, 1000, 0), (10, 0, 0), (10, 1, 5), (10, 200, 1000), (10, 2000, 10_000), (10, usize::MAX, 10_000)]
        {
            assert_eq!(within(grace).spread(watches), Duration::from_millis(millis), "{watches} in {grace} s");
        }
    }
}

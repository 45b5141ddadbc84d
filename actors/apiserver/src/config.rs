//! Settings of one server, fixed at start.

use std::net::IpAddr;
use std::time::Duration;

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
    pub termination: crate::termination::Termination,
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

/// Returns the `gitVersion` for `/version`: upstream's level, with our version as build metadata, which Helm's comparisons ignore.
#[must_use]
pub fn git_version() -> String {
    format!("{}+oarlock.{}", oarlock_schema::resources::KUBERNETES, env!("CARGO_PKG_VERSION"))
}

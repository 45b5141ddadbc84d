//! Facts of one server, fixed at start.

use std::net::IpAddr;
use std::time::Duration;

/// Facts of one server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address under which others reach this server; what the `kubernetes` Service points to. Never a loopback address.
    pub advertise_address: IpAddr,
    /// Port of the HTTPS listener.
    pub port: u16,
    /// Addresses of Services.
    pub service_cidr: ipnet::IpNet,
    /// Ports of NodePort Services, both ends included.
    pub node_ports: (u16, u16),
    /// How long Events are kept; zero keeps them until somebody deletes them.
    pub event_ttl: Duration,
    /// Longest a request may take that is no watch (upstream: 60 s).
    pub request_timeout: Duration,
    /// Of the requests over HTTP/2, the fraction after which their connection gets a GOAWAY (upstream: at most 0.02).
    pub goaway_chance: f64,
    /// How it ends.
    pub termination: crate::termination::Termination,
    /// Feature gates.
    pub features: oarlock_schema::FeatureGates,
    /// Largest body in bytes (upstream: 3 MiB).
    pub max_body: usize,
    /// How many requests and connections there may be at once.
    pub limits: crate::inflight::Limits,
    /// This server's name among its like; also its identity Lease.
    pub identity: String,
    /// The PEM of the cluster's certificate authority, as clients trust it.
    pub ca_pem: String,
    /// The PEM of the authority that signs client certificates.
    pub client_ca_pem: String,
    /// The PEM of the front proxy's authority.
    pub front_proxy_ca_pem: String,
    /// Issuer of ServiceAccount tokens.
    pub issuer: String,
    /// The JSON Web Key Set of the token keys.
    pub jwks: String,
}

impl Config {
    /// The `kubernetes` Service's address: the first of the range.
    #[must_use]
    pub fn first_service_ip(&self) -> Option<IpAddr> {
        self.service_cidr.hosts().next()
    }
}

/// `gitVersion` of `/version`: upstream's level, our version as build metadata, which Helm's comparisons ignore.
#[must_use]
pub fn git_version() -> String {
    format!("{}+oarlock.{}", oarlock_schema::resources::KUBERNETES, env!("CARGO_PKG_VERSION"))
}

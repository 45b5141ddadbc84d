//! [`Leaf`], the description of a certificate to issue: subject, alternative names, usage, lifetime.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;

use crate::{Error, Result, Subject};

/// Default lifetime of an issued certificate: a year, as kubeadm's.
pub(crate) const LEAF_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// A subject alternative name. Ordered, so that sets can be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum San {
    /// A DNS name.
    Dns(String),
    /// An IP address.
    Ip(IpAddr),
}

impl San {
    /// Parses `text` as an IP address, or else takes it as a DNS name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Dns(text.to_owned()), Self::Ip)
    }

    pub(crate) fn to_rcgen(&self) -> Result<rcgen::SanType> {
        Ok(match self {
            Self::Dns(name) => rcgen::SanType::DnsName(name.clone().try_into().map_err(|_| Error::Name(name.clone()))?),
            Self::Ip(ip) => rcgen::SanType::IpAddress(*ip),
        })
    }
}

/// Permitted use of a certificate (extended key usage).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// TLS server.
    Server,
    /// TLS client.
    Client,
    /// Both, as for a kubelet.
    Both,
}

impl Usage {
    pub(crate) fn purposes(self) -> Vec<ExtendedKeyUsagePurpose> {
        match self {
            Self::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Self::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Self::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

/// Description of a certificate to issue.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Subject of the certificate.
    pub subject: Subject,
    /// Names and addresses of the server; empty for a client.
    pub sans: Vec<San>,
    /// Permitted use.
    pub usage: Usage,
    /// Lifetime, counted from `now`.
    pub lifetime: Duration,
}

impl Leaf {
    /// Describes a client certificate for a user and its groups, valid for a year.
    #[must_use]
    pub fn client(subject: Subject) -> Self {
        Self { subject, sans: Vec::new(), usage: Usage::Client, lifetime: LEAF_LIFETIME }
    }

    /// Describes a serving certificate for these names, valid for a year.
    #[must_use]
    pub fn server(subject: Subject, sans: Vec<San>) -> Self {
        Self { subject, sans, usage: Usage::Server, lifetime: LEAF_LIFETIME }
    }

    /// Describes a certificate for both sides of TLS: for a member of a cluster whose members connect to one another.
    #[must_use]
    pub fn peer(subject: Subject, sans: Vec<San>) -> Self {
        Self { subject, sans, usage: Usage::Both, lifetime: LEAF_LIFETIME }
    }

    /// Returns the description with another lifetime.
    #[must_use]
    pub fn good_for(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }
}

/// Returns the names of an apiserver's certificate: `localhost`, the `kubernetes` Service in all its spellings, the loopback addresses and the given names and addresses.
/// Sorted, without duplicates.
#[must_use]
pub fn serving_sans(cluster_domain: &str, addresses: &[IpAddr], more: &[String]) -> Vec<San> {
    let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let mut sans: Vec<San> = names.iter().map(|n| San::Dns((*n).to_owned())).collect();
    sans.push(San::Dns(format!("kubernetes.default.svc.{cluster_domain}")));
    sans.extend([IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()].map(San::Ip));
    // An unspecified address is only for listening; no client connects to it.
    sans.extend(addresses.iter().filter(|ip| !ip.is_unspecified()).copied().map(San::Ip));
    sans.extend(more.iter().map(|name| San::parse(name)));
    sans.sort();
    sans.dedup();
    sans
}

//! What is asked of an authority: a subject, names and addresses, a use, a lifetime.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;

use crate::{Error, Result, Subject};

/// How long an issued certificate is good: a year, as kubeadm's.
pub(crate) const LEAF_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// A subject alternative name. Ordered, so that two sets can be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum San {
    /// A DNS name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl San {
    /// An address when `text` is one, otherwise a DNS name.
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

/// What a certificate may be used for (extended key usage).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// It answers TLS connections.
    Server,
    /// It names the client of one.
    Client,
    /// Both, such as a kubelet's.
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

/// A certificate to be issued.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Whom it speaks for.
    pub subject: Subject,
    /// Names and addresses it answers for; empty for a client.
    pub sans: Vec<San>,
    /// What it may be used for.
    pub usage: Usage,
    /// How long it is good, counted from `now`.
    pub lifetime: Duration,
}

impl Leaf {
    /// A client certificate for a user and their groups, good for a year.
    #[must_use]
    pub fn client(subject: Subject) -> Self {
        Self { subject, sans: Vec::new(), usage: Usage::Client, lifetime: LEAF_LIFETIME }
    }

    /// A serving certificate for these names, good for a year.
    #[must_use]
    pub fn server(subject: Subject, sans: Vec<San>) -> Self {
        Self { subject, sans, usage: Usage::Server, lifetime: LEAF_LIFETIME }
    }

    /// A certificate for both sides of a TLS connection: a member of a cluster that calls other members and is called by them.
    #[must_use]
    pub fn peer(subject: Subject, sans: Vec<San>) -> Self {
        Self { subject, sans, usage: Usage::Both, lifetime: LEAF_LIFETIME }
    }

    /// The same with another lifetime.
    #[must_use]
    pub fn good_for(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }
}

/// The names every apiserver answers for: `localhost`, the `kubernetes` Service in all its spellings, the loopback addresses, the
/// first service address and the advertised one, and whatever else is given. Sorted, without doubles.
#[must_use]
pub fn serving_sans(cluster_domain: &str, addresses: &[IpAddr], more: &[String]) -> Vec<San> {
    let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let mut sans: Vec<San> = names.iter().map(|n| San::Dns((*n).to_owned())).collect();
    sans.push(San::Dns(format!("kubernetes.default.svc.{cluster_domain}")));
    sans.extend([IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()].map(San::Ip));
    // An unspecified address is a place to listen, never one to be called at.
    sans.extend(addresses.iter().filter(|ip| !ip.is_unspecified()).copied().map(San::Ip));
    sans.extend(more.iter().map(|name| San::parse(name)));
    sans.sort();
    sans.dedup();
    sans
}

//! Values of the types of Kubernetes' libraries.

mod authorization;
mod named_format;
mod network;
mod semver;
mod url;

use std::net::IpAddr;
use std::sync::Arc;

use oarlock_meta::Quantity;

pub(crate) use authorization::Check;
pub use authorization::{AccessQuery, AccessRequest, Authorizer, Decision};
pub use named_format::NamedFormat;
pub use network::Cidr;
pub(crate) use network::{is_mapped, parse_ip};
pub use semver::Semver;
pub use url::Url;

/// A value of a type that is no part of the language itself.
#[derive(Clone, PartialEq, Debug)]
pub enum Opaque {
    /// `kubernetes.URL`.
    Url(Arc<Url>),
    /// `kubernetes.Quantity`.
    Quantity(Arc<Quantity>),
    /// `net.IP`.
    Ip(IpAddr),
    /// `net.CIDR`.
    Cidr(Cidr),
    /// `kubernetes.Semver`.
    Semver(Arc<Semver>),
    /// `kubernetes.NamedFormat`.
    Format(&'static NamedFormat),
    /// `kubernetes.authorization.*Check`, and the authorizer itself.
    Access(Arc<AccessRequest>),
    /// `kubernetes.authorization.Decision`.
    Decision(Arc<Decision>),
}

impl Opaque {
    /// Returns the name of the type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Access(request) => request.type_name(),
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

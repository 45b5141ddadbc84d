//! Values of the types of Kubernetes' libraries.

use std::net::IpAddr;
use std::sync::Arc;

use oarlock_meta::Quantity;

use crate::functions::{Address, Cidr, Decision, Format, Request, Version};

/// A value of a type that is no part of the language itself.
#[derive(Clone, PartialEq, Debug)]
pub enum Opaque {
    /// `kubernetes.URL`.
    Url(Arc<Address>),
    /// `kubernetes.Quantity`.
    Quantity(Arc<Quantity>),
    /// `net.IP`.
    Ip(IpAddr),
    /// `net.CIDR`.
    Cidr(Cidr),
    /// `kubernetes.Semver`.
    Semver(Arc<Version>),
    /// `kubernetes.NamedFormat`.
    Format(&'static Format),
    /// `kubernetes.authorization.*Check`, and the authorizer itself.
    Access(Arc<Request>),
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

//! Keys and certificates of the cluster: its certificate authorities, created at the first start and stored in the data directory.
//!
//! - [`Authority`] signs; [`Leaf`] describes a certificate to issue; [`Issued`] is a certificate with its key.
//! - [`Pki`] is the whole set for a control plane, loaded from a directory or created in it ([`Pki::open`]).
//! - [`ClientTrust`] verifies client certificates *at authentication time*: the TLS layer accepts any certificate whose key the client holds ([`tls::server_config`]), so an
//!   untrusted certificate gives a 401 and not a broken connection (as upstream).
//! - [`SigningKey`] and [`VerifyingKeys`] are the ServiceAccount token keys (ES256) with upstream's key ids and JWKS.
//!
//! This crate reads no clock: callers pass `now`, so virtual time works. Keys come from the operating system's generator and are never derived from a seed.

mod authority;
mod certificate;
mod certificates_only;
mod csr;
mod der;
mod error;
mod files;
mod jwk;
mod key;
mod leaf;
mod provider;
mod set;
mod subject;
pub mod tls;
mod trust;

pub use authority::{Authority, Issued};
pub use certificate::{Presented, parse_chain, parse_presented};
pub use certificates_only::certificates_only;
pub use csr::{CsrInfo, parse_csr};
pub use error::{Error, Result};
pub use files::{AtomicFiles, Visibility, read};
pub use jwk::{SigningKey, VerifyingKeys};
pub use key::KeyPair;
pub use leaf::{Leaf, San, Usage, serving_sans};
pub use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
pub use set::{Pki, ServingNames};
pub use subject::Subject;
pub use trust::ClientTrust;

#[cfg(test)]
mod tests;

//! The cluster's keys and certificates: its own authority, made on the first start and kept in the data directory.
//!
//! - [`Authority`] signs; [`Leaf`] says what is asked for; [`Issued`] is a certificate with its key.
//! - [`Pki`] is the whole set a control plane needs, loaded from a directory or made in it ([`Pki::open`]).
//! - [`ClientTrust`] verifies client certificates *at authentication time*: the TLS layer takes any certificate whose key the
//!   client holds ([`tls::server_config`]), so that an untrusted one becomes a 401 and not a broken connection (upstream does the same).
//! - [`SigningKey`] and [`VerifyingKeys`] are the ServiceAccount token keys (ES256) with upstream's key ids and JWKS.
//!
//! Nothing here reads a clock: the caller hands in `now`, so that virtual time holds. Keys come from the operating system's
//! generator and are never derived from a seed.

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

//! The cryptography provider for rustls: the algorithms with which all TLS connections and signatures of this project work.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Returns the cryptography provider that all TLS connections of this project use.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

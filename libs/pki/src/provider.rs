//! The crypto provider of this project.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Returns the crypto provider of this project.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

//! Verification of client certificate chains at authentication time.

use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::provider::provider;
use crate::{Error, Presented, Result};

/// Certificate authorities trusted for client certificates.
#[derive(Debug, Clone)]
pub struct ClientTrust {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientTrust {
    /// Trusts client certificates of these authorities.
    ///
    /// # Errors
    /// When the list is empty or an authority is malformed.
    pub fn new<'a>(authorities: impl IntoIterator<Item = &'a CertificateDer<'a>>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority.clone().into_owned())?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|e| Error::Malformed(format!("no usable client authority: {e}")))?;
        Ok(Self { verifier })
    }

    /// Verifies the chain that a client sent, leaf first: signatures up to a trusted authority, validity at `now`, client usage. Returns the parsed leaf.
    ///
    /// # Errors
    /// When the chain is empty, malformed, expired, not yet valid, for another usage, or signed by an untrusted authority.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Presented> {
        let Some((own, intermediates)) = chain.split_first() else {
            return Err(Error::Malformed("no certificate presented".to_owned()));
        };
        self.verifier.verify_client_cert(own, intermediates, now)?;
        Presented::parse(own)
    }

    /// Returns the verifier of handshakes, which refuses clients without a certificate.
    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }

    /// Returns the authorities' names, which a server sends to clients so that they can choose a certificate.
    #[must_use]
    pub fn hints(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }
}

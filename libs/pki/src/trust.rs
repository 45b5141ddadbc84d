//! Whom the apiserver believes: verification of a client's certificate chain at authentication time.

use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::{Error, Presented, Result, tls::provider};

/// A set of authorities whose client certificates are believed.
#[derive(Debug, Clone)]
pub struct ClientTrust {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientTrust {
    /// Trusts what these authorities signed for client use.
    ///
    /// # Errors
    /// When there is no authority or one is malformed.
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

    /// Verifies the chain a client presented, its own certificate first: signatures up to a trusted authority, dates at `now`, use
    /// as a client. Returns what the certificate says.
    ///
    /// # Errors
    /// When the chain is empty, malformed, expired, not yet good, for another use, or signed by somebody else.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Presented> {
        let Some((own, intermediates)) = chain.split_first() else {
            return Err(Error::Malformed("no certificate presented".to_owned()));
        };
        self.verifier.verify_client_cert(own, intermediates, now)?;
        Presented::parse(own)
    }

    /// The authorities' names, which a server tells its clients so that they can choose among their certificates.
    #[must_use]
    pub fn hints(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }
}

//! TLS configurations. Servers request a client certificate but accept any; clients trust the cluster's authority.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

pub use crate::provider::provider;
use crate::{ClientTrust, Error, Issued, Result, parse_chain, read};

/// Application protocols offered in the handshake, best first.
pub const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The serving certificate of a server, replaceable while the server runs, so that renewal needs no restart.
#[derive(Debug)]
pub struct ServingCertificate {
    current: ArcSwap<CertifiedKey>,
}

impl ServingCertificate {
    /// Uses an issued certificate.
    ///
    /// # Errors
    /// When the key cannot be used for TLS.
    pub fn new(issued: &Issued) -> Result<Arc<Self>> {
        Self::from_chain(vec![issued.certificate.clone()], issued.key.to_rustls())
    }

    /// Uses a given chain (`--tls-cert-file`), leaf first.
    ///
    /// # Errors
    /// When the key cannot be used for TLS.
    pub fn from_chain(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { current: ArcSwap::from_pointee(certified(chain, key)?) }))
    }

    /// Reads the chain (leaf first) and its key from PEM files.
    ///
    /// # Errors
    /// When the files cannot be read, or do not hold a certificate and its key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Arc<Self>> {
        let chain = parse_chain(&read(certificate)?).map_err(|error| error.in_file(certificate))?;
        let private = PrivateKeyDer::from_pem_slice(read(key)?.as_bytes())
            .map_err(|error| Error::Malformed(error.to_string()).in_file(key))?;
        Self::from_chain(chain, private).map_err(|error| error.in_file(certificate))
    }

    /// Replaces the certificate for all later handshakes.
    ///
    /// # Errors
    /// When the key cannot be used for TLS; the old certificate then stays.
    pub fn replace(&self, issued: &Issued) -> Result<()> {
        let next = certified(vec![issued.certificate.clone()], issued.key.to_rustls())?;
        self.current.store(Arc::new(next));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<CertifiedKey> {
    if chain.is_empty() {
        return Err(Error::Malformed("no certificate".to_owned()));
    }
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => Error::Malformed("the certificate does not belong to the key".to_owned()),
        other => other.into(),
    })
}

/// Builds a server configuration: TLS 1.2 and 1.3, HTTP/2 and 1.1. With `clients` the server requests a client certificate, sends the names of the authorities in `clients`,
/// and accepts any certificate whose key the client holds. Whether the certificate is *trusted* is decided by authentication ([`ClientTrust::verify`]), because an untrusted
/// one must give a 401 Status.
///
/// # Errors
/// When the provider lacks the protocol versions.
pub fn server_config(certificate: Arc<ServingCertificate>, clients: Option<&ClientTrust>) -> Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(trust) => builder.with_client_cert_verifier(Arc::new(AnyClient { hints: trust.hints().to_vec() })),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// Builds a server configuration for clients that must all have a certificate: TLS 1.2 and 1.3, HTTP/2 and 1.1. A client without a certificate, or with one that `clients` does
/// not trust, is refused in the handshake.
///
/// # Errors
/// When the provider lacks the protocol versions.
pub fn mutual_server_config(certificate: Arc<ServingCertificate>, clients: &ClientTrust) -> Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_client_cert_verifier(clients.verifier()).with_cert_resolver(certificate);
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// How a client verifies a server's certificate.
#[derive(Debug, Clone)]
pub enum ServerTrust {
    /// By these authorities, and for the name that the client connected to.
    Authorities(Vec<CertificateDer<'static>>),
    /// Not at all (`insecure-skip-tls-verify`): no protection against a man in the middle.
    Anybody,
}

/// Builds a client configuration with an optional client certificate (chain, leaf first, and key).
///
/// # Errors
/// When an authority is malformed, the list is empty, or the key does not belong to the certificate.
pub fn client_config(
    trust: ServerTrust,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match trust {
        ServerTrust::Authorities(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots.add(authority)?;
            }
            if roots.is_empty() {
                return Err(Error::Malformed("no authority to verify the server with".to_owned()));
            }
            builder.with_root_certificates(roots)
        }
        ServerTrust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer)),
    };
    let mut config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// Signature checks of both verifiers: the peer must hold the key of its certificate.
macro_rules! proof_of_the_key {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls12_signature(message, certificate, signed, &provider().signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, certificate, signed, &provider().signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            provider().signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Verifier that accepts any client certificate whose key the client proves to hold.
#[derive(Debug)]
struct AnyClient {
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    proof_of_the_key!();
}

/// Verifier that accepts any server that holds the key of its certificate.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    proof_of_the_key!();
}

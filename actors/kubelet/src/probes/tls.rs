//! TLS to containers. Nobody has vouched for their certificates, so probes and hooks take any, as upstream's do.

use std::sync::{Arc, LazyLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Go's text for a server that speaks HTTP where TLS was spoken to it.
pub(crate) const PLAIN: &str = "http: server gave HTTP response to HTTPS client";

static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().ok()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    Some(Arc::new(builder.with_no_client_auth()))
});

/// Makes a connection one of TLS.
///
/// # Errors
/// [`PLAIN`], or what the library says.
pub(super) async fn wrap(host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
    let config = CONFIG.clone().ok_or("no TLS versions in common")?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        match cause {
            Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => PLAIN.to_owned(),
            Some(cause) => format!("tls: {cause}"),
            None => error.to_string(),
        }
    })
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! TLS connections to containers. Probes and hooks accept any certificate, as upstream's do, since containers rarely have trusted ones.

use std::sync::{Arc, LazyLock};

use oarlock_pki::tls::{self, ServerTrust};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, InvalidMessage};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::RequestError;

static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
    let mut config = tls::client_config(ServerTrust::Anybody, None).ok()?;
    // Probes use HTTP/1.1, without ALPN negotiation.
    config.alpn_protocols.clear();
    Some(Arc::new(config))
});

/// Performs the TLS handshake on a connection.
///
/// # Errors
/// [`RequestError::PlainHttp`], or the TLS library's text.
pub(super) async fn wrap(host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, RequestError> {
    let config = CONFIG.clone().ok_or_else(|| RequestError::Tls("no TLS versions in common".to_owned()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| RequestError::Malformed(error.to_string()))?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        match cause {
            Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => RequestError::PlainHttp,
            Some(cause) => RequestError::Tls(format!("tls: {cause}")),
            None => RequestError::Tls(error.to_string()),
        }
    })
}

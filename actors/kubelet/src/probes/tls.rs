//! TLS to containers. Nobody has vouched for their certificates, so probes and hooks take any, as upstream's do.

use std::sync::{Arc, LazyLock};

use oarlock_pki::tls::{self, ServerTrust};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, InvalidMessage};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Go's text for a server that speaks HTTP where TLS was spoken to it.
pub(crate) const PLAIN: &str = "http: server gave HTTP response to HTTPS client";

static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| {
    let mut config = tls::client_config(ServerTrust::Anybody, None).ok()?;
    // A probe speaks HTTP/1.1 and leaves the choice to nobody.
    config.alpn_protocols.clear();
    Some(Arc::new(config))
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

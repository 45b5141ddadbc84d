//! Connections to members over another way than TCP, such as a tunnel.

use std::fmt;
use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};

/// A byte connection.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Opens connections to members. TLS runs inside.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn(String, u16) -> Dialled + Send + Sync>);

/// The future of a connection.
type Dialled = BoxFuture<'static, io::Result<Box<dyn Connection>>>;

impl Dial {
    /// Creates a way to members from a function that connects to a host and port.
    pub fn new(connect: impl Fn(String, u16) -> Dialled + Send + Sync + 'static) -> Self {
        Self(Arc::new(connect))
    }

    /// Returns a channel whose connections are opened this way.
    pub(super) fn channel(&self, endpoint: &Endpoint) -> Channel {
        let dial = self.clone();
        endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            // An IPv6 address is in brackets.
            let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
            let connection = (dial.0)(host, uri.port_u16().unwrap_or(default));
            async move { connection.await.map(TokioIo::new) }
        }))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

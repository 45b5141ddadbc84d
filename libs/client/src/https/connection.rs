//! One HTTP/2 connection and its streams.

use oarlock_telemetry::logs::chain;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::attempt::Failure;
use super::error::{ConnectError, HandshakeError, ReadinessError, RequestError};

/// Deadline for TCP, TLS and the HTTP/2 handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Deadline for a server's answer about its readiness.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection that was silent for this long is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// A connection that does not answer a ping in this time is closed. client-go uses 30 s and 15 s; a lost host answers nothing, and with several servers a client need not wait
/// that long.
const PONG_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that a server may send ahead of the reader on one stream; bounds the memory of a slow watcher.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bytes that a server may send ahead on a whole connection; wide, so that slow streams do not block the others.
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
/// Streams per connection, a little below the apiserver's limit of 100; further streams get another connection.
pub(super) const MAX_STREAMS: usize = 90;

/// Runs the background tasks of connections.
pub trait Spawn: Send + Sync + 'static {
    /// Runs `task` to its end; dropping it instead closes the connection.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// Runs tasks on the current tokio runtime; for tools and tests, which need no orderly shutdown.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSpawn;

impl Spawn for TokioSpawn {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        #[expect(clippy::disallowed_methods, reason = "the one place for users without a gate")]
        drop(tokio::spawn(task));
    }
}

/// Executor that hands hyper's tasks to a [`Spawn`].
#[derive(Clone)]
struct Exec(Arc<dyn Spawn>);

impl<F: Future + Send + 'static> hyper::rt::Executor<F> for Exec {
    fn execute(&self, future: F) {
        self.0.spawn(Box::pin(async move {
            future.await;
        }));
    }
}

/// A request or watch in flight, counted until dropped.
pub(super) struct Stream {
    open: Arc<AtomicUsize>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A handle on a connection. Clones share the connection.
#[derive(Clone)]
pub(super) struct Connection {
    sender: http2::SendRequest<Full<Bytes>>,
    open: Arc<AtomicUsize>,
    base: Arc<Base>,
}

/// A server's address in parts.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) host: String,
    pub(super) port: u16,
    /// Resolved address of the host; `None` before the first lookup.
    pub(super) address: Option<SocketAddr>,
    /// `host[:port]` for `:authority`.
    pub(super) authority: String,
    /// Path prefix of all requests, without a slash at the end.
    pub(super) prefix: String,
    pub(super) name: ServerName<'static>,
}

impl std::fmt::Display for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.authority)?;
        // Print the address only when the host is a name.
        self.address.filter(|at| self.host.parse() != Ok(at.ip())).map_or(Ok(()), |at| write!(f, " ({at})"))
    }
}

impl Connection {
    /// Connects.
    pub(super) async fn make(
        base: Arc<Base>,
        tls: Arc<rustls::ClientConfig>,
        spawn: Arc<dyn Spawn>,
    ) -> Result<Self, ConnectError> {
        let making = async {
            let tcp = match base.address {
                Some(address) => TcpStream::connect(address).await?,
                None => TcpStream::connect((base.host.as_str(), base.port)).await?,
            };
            tcp.set_nodelay(true)?;
            let tls = TlsConnector::from(tls).connect(base.name.clone(), tcp).await?;
            if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(HandshakeError::NotHttp2);
            }
            http2::Builder::new(Exec(spawn.clone()))
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PONG_TIMEOUT)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_header_list_size(64 * 1024)
                .handshake(TokioIo::new(tls))
                .await
                .map_err(HandshakeError::Http2)
        };
        let at = base.to_string();
        // Boxed: the future is large and seldom needed.
        let (sender, connection) = timeout(CONNECT_TIMEOUT, Box::pin(making))
            .await
            .unwrap_or(Err(HandshakeError::TimedOut))
            .map_err(|cause| ConnectError::Handshake { server: at.clone(), cause })?;
        spawn.spawn(Box::pin(async move {
            // Requests report connection errors themselves; this message is for idle connections.
            if let Err(error) = connection.await {
                tracing::debug!(at, error = chain(&error), "connection ended");
            }
        }));
        Ok(Self { sender, open: Arc::default(), base })
    }

    /// Whether the connection accepts new streams.
    pub(super) fn accepts_streams(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Returns the number of open streams.
    pub(super) fn streams(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Asks the server whether it is ready. Only a clear "not ready" counts: a server that forbids the question is ready.
    pub(super) async fn ready(&mut self) -> Result<(), ConnectError> {
        let answered = self.ask_readiness().await;
        answered.map_err(|cause| ConnectError::NotReady { server: self.base.to_string(), cause })
    }

    async fn ask_readiness(&mut self) -> Result<(), ReadinessError> {
        let mut request = http::Request::new(Full::default());
        *request.uri_mut() = self.uri("/readyz")?;
        match timeout(READY_TIMEOUT, self.send(request)).await {
            Ok(Ok((answer, _))) if answer.status().is_server_error() => Err(ReadinessError::Refused),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(ReadinessError::Lost),
            Err(_) => Err(ReadinessError::Silent),
        }
    }

    /// Builds the full URI of a path and query.
    pub(super) fn uri(&self, path: &str) -> Result<http::Uri, RequestError> {
        let path = format!("{}{path}", self.base.prefix);
        let authority = self.base.authority.as_str();
        Ok(http::Uri::builder().scheme("https").authority(authority).path_and_query(path).build()?)
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<(http::Response<Incoming>, Stream), Failure> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let stream = Stream { open: self.open.clone() };
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok((response, stream)),
            Err(mut error) => {
                let returned = error.take_message().is_some();
                let error = error.into_error();
                let text = chain(&error);
                if returned || refused(&error) { Err(Failure::NotBegun(text)) } else { Err(Failure::Broken(text)) }
            }
        }
    }
}

/// Whether the server says that it did not process the request: the stream was refused, or a graceful GOAWAY named an earlier stream as the last (RFC 9113, 8.7).
fn refused(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(h2) = inner.downcast_ref::<h2::Error>() {
            let reason = h2.reason();
            return reason == Some(h2::Reason::REFUSED_STREAM)
                || (h2.is_go_away() && h2.is_remote() && reason == Some(h2::Reason::NO_ERROR));
        }
        source = inner.source();
    }
    false
}

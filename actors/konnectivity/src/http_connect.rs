//! HTTP `CONNECT` at a server, as its client.

use std::path::PathBuf;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use oarlock_runtime::{Instant, clock};
use oarlock_streams::{BoxIo, upgrade};
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::error::{DialError, Reason};
use crate::probes;

/// The most bytes of a refusal that are read.
const MAX_REFUSAL: usize = 4 << 10;

/// The address of a server.
#[derive(Clone)]
pub enum HttpConnect {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and port without TLS.
    Plain(String),
    /// A host and port with TLS.
    Tls(String, TlsConnector, ServerName<'static>),
}

impl std::fmt::Debug for HttpConnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => f.debug_tuple("Unix").field(path).finish(),
            Self::Plain(address) => f.debug_tuple("Plain").field(address).finish(),
            Self::Tls(address, ..) => f.debug_tuple("Tls").field(address).finish_non_exhaustive(),
        }
    }
}

impl HttpConnect {
    /// Connects to the server, and asks for `address` (`host:port`).
    pub(crate) async fn dial(&self, address: &str, deadline: Instant) -> Result<BoxIo, DialError> {
        let io = self.connect(deadline).await?;
        self.ask(io, address, None, deadline).await
    }

    /// Connects to the server.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<BoxIo, DialError> {
        let io = clock::timeout_at(deadline, self.socket()).await.map_err(|_| DialError::no_connection_in_time())?;
        io.map_err(|error| DialError::unreachable(&error))
    }

    /// Asks the server at the other end of a new connection for `address` (`host:port`), with one more header.
    pub(crate) async fn ask(
        &self,
        io: BoxIo,
        address: &str,
        header: Option<(HeaderName, &str)>,
        deadline: Instant,
    ) -> Result<BoxIo, DialError> {
        let mut request = Request::builder().method(Method::CONNECT).uri(address).header(HOST, address);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| DialError::new(Reason::Invalid, format!("{address:?}: {error}")))?;
        let dial = async {
            let (answer, carry) = upgrade::send(io, request).await.map_err(lost)?;
            let taken = async {
                let answer = answer.await.map_err(lost)?;
                if answer.status() != StatusCode::OK {
                    return Err(self.refusal(address, answer).await);
                }
                let connection = upgrade::take(hyper::upgrade::on(answer)).await.map_err(lost)?;
                Ok(Box::new(connection) as BoxIo)
            };
            // The connection moves bytes only while it is polled, and hands itself over when it is upgraded.
            let carried = async {
                carry.await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                taken = taken => taken,
                () = carried => Err(DialError::new(Reason::Lost, "the tunnel server has closed the connection")),
            }
        };
        let timeout = |_| DialError::new(Reason::Timeout, "the tunnel server did not answer in time");
        clock::timeout_at(deadline, dial).await.map_err(timeout)?
    }

    async fn socket(&self) -> std::io::Result<BoxIo> {
        let tcp = async |address: &str| {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            probes::begin(&socket);
            Ok::<_, std::io::Error>(socket)
        };
        Ok(match self {
            Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Self::Plain(address) => Box::new(tcp(address).await?),
            Self::Tls(address, tls, name) => Box::new(tls.connect(name.clone(), tcp(address).await?).await?),
        })
    }

    /// Reads why the server refuses. The text begins with that of upstream's client.
    async fn refusal(&self, address: &str, answer: Response<Incoming>) -> DialError {
        let status = answer.status();
        let reason = match status {
            StatusCode::INTERNAL_SERVER_ERROR => Reason::NoAgent,
            StatusCode::GATEWAY_TIMEOUT => Reason::Timeout,
            StatusCode::SERVICE_UNAVAILABLE => Reason::Busy,
            StatusCode::BAD_REQUEST => Reason::Invalid,
            _ => Reason::Destination,
        };
        let body = Limited::new(answer.into_body(), MAX_REFUSAL).collect().await;
        let text =
            body.map_or_else(|error| error.to_string(), |body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        let said = if text.is_empty() { String::new() } else { format!(": {}", text.trim_end()) };
        DialError::new(
            reason,
            format!("proxy error from {self} while dialing {address}, code {}: {status}{said}", status.as_u16()),
        )
    }
}

impl std::fmt::Display for HttpConnect {
    /// The address alone.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Plain(address) | Self::Tls(address, ..) => f.write_str(address),
        }
    }
}

fn lost(error: hyper::Error) -> DialError {
    DialError::new(Reason::Lost, oarlock_telemetry::logs::chain(&error))
}

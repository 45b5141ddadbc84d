//! HTTP/2 connections over TLS; answers are read as raw bytes, so that the generator costs little.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use oarlock_client::Endpoint;
use oarlock_config::{Credential, Kubeconfig};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How many bytes of a refusal an error shows.
const SHOWN: usize = 500;

/// A connection; clones share the connection.
#[derive(Clone)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: Arc<str>,
    authorization: Option<Arc<str>>,
}

/// A streamed answer.
pub(crate) struct Stream(Incoming);

impl Stream {
    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            let Some(frame) = self.0.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

impl Connection {
    /// Opens a connection with the kubeconfig's identity, or with a token and no certificate.
    ///
    /// # Errors
    /// For an unusable kubeconfig, and when the server does not answer.
    pub(crate) async fn open(kubeconfig: &Path, token: Option<&str>) -> anyhow::Result<Self> {
        let config = Kubeconfig::read(kubeconfig)?;
        let mut resolved = config.resolve(None)?;
        if token.is_some() {
            resolved.credential = Credential::None;
        }
        let host = resolved.authority().to_owned();
        let mut tls = rustls::ClientConfig::clone(&Endpoint::new(&resolved, "oarlock-loadtests")?.tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(ServerName::try_from("localhost")?, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(16 << 20)
            .initial_connection_window_size(64 << 20)
            .handshake(TokioIo::new(stream))
            .await?;
        #[expect(clippy::disallowed_methods, reason = "a load generator has no actors")]
        tokio::spawn(connection);
        let authorization = token.map(|token| format!("Bearer {token}").into());
        Ok(Self { sender, host: host.into(), authorization })
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        gzip: bool,
    ) -> anyhow::Result<Response<Incoming>> {
        let content = match method {
            Method::PATCH => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.host))
            .header("content-type", content);
        if gzip {
            request = request.header("accept-encoding", "gzip");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", &**authorization);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    /// Makes a request and returns the code and the length of the answer.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        gzip: bool,
    ) -> anyhow::Result<(u16, usize)> {
        let response = self.request(method, path, body, gzip).await?;
        let code = response.status().as_u16();
        let mut stream = Stream(response.into_body());
        let mut length = 0;
        while let Some(part) = stream.next().await? {
            length += part.len();
        }
        Ok((code, length))
    }

    /// Makes a request that must create something.
    ///
    /// # Errors
    /// When it does not, or the connection breaks.
    pub(crate) async fn create(&mut self, path: &str, body: Bytes) -> anyhow::Result<()> {
        match self.call(Method::POST, path, body, false).await? {
            (201, _) => Ok(()),
            (code, _) => bail!("POST {path}: {code}"),
        }
    }

    /// Opens a streamed answer.
    ///
    /// # Errors
    /// When the request is refused, or the connection breaks.
    pub(crate) async fn stream(&mut self, path: &str) -> anyhow::Result<Stream> {
        let response = self.request(Method::GET, path, Bytes::new(), false).await?;
        anyhow::ensure!(response.status().is_success(), "GET {path}: {}", response.status());
        Ok(Stream(response.into_body()))
    }

    /// Makes a request that must succeed and reads the whole answer.
    ///
    /// # Errors
    /// When the request is refused, or the connection breaks.
    pub(crate) async fn send(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let response = self.request(method.clone(), path, body, false).await?;
        let code = response.status();
        let mut stream = Stream(response.into_body());
        let mut bytes = BytesMut::new();
        while let Some(part) = stream.next().await? {
            bytes.extend_from_slice(&part);
        }
        if !code.is_success() {
            bytes.truncate(SHOWN);
            bail!("{method} {path}: {code}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes.freeze())
    }
}

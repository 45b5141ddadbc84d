//! HTTP/2 connections over TLS with the kubeconfig's identity; answers are read as raw bytes, so that the generator costs little.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use oarlock_client::Endpoint;
use oarlock_config::Kubeconfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: Arc<str>,
}

impl Connection {
    /// Opens a connection as the kubeconfig says.
    pub(crate) async fn open(kubeconfig: &Path) -> anyhow::Result<Self> {
        let config = Kubeconfig::read(kubeconfig)?;
        let resolved = config.resolve(None)?;
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
        Ok(Self { sender, host: host.into() })
    }

    /// Makes a request and returns the code and the length of the answer.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        gzip: bool,
    ) -> anyhow::Result<(u16, usize)> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.host))
            .header("content-type", "application/json");
        if gzip {
            request = request.header("accept-encoding", "gzip");
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(body))?).await?;
        let code = response.status().as_u16();
        let mut length = 0;
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok((code, length))
    }

    /// Makes a request that must create something.
    pub(crate) async fn create(&mut self, path: &str, body: Bytes) -> anyhow::Result<()> {
        match self.call(Method::POST, path, body, false).await? {
            (201, _) => Ok(()),
            (code, _) => bail!("POST {path}: {code}"),
        }
    }

    /// Reads a whole answer.
    pub(crate) async fn read(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.sender.ready().await?;
        let request = Request::builder().uri(format!("https://{}{path}", self.host)).body(Full::new(Bytes::new()))?;
        let response = self.sender.send_request(request).await?;
        let code = response.status();
        let bytes = response.into_body().collect().await.context("body")?.to_bytes();
        if !code.is_success() {
            bail!("GET {path}: {code}");
        }
        Ok(bytes)
    }
}

//! HTTP/1.1 over TLS without retries or defaults, for any method and path.
//!
//! The client library would hide what the oracle wants to see (it retries a 429, and knows only well-formed requests).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use oarlock_client::Endpoint;
use oarlock_config::Kubeconfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Time limit of a whole answer; watches end by their own `timeoutSeconds`.
const BUDGET: Duration = Duration::from_secs(120);

/// One connection to one server, reopened when it was closed.
pub struct Connection {
    authority: String,
    tls: TlsConnector,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// Status code.
    pub code: u16,
    /// Headers.
    pub headers: http::HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Connection {
    /// To the server of a kubeconfig, as its user.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub fn new(kubeconfig: &std::path::Path) -> anyhow::Result<Self> {
        let config = Kubeconfig::read(kubeconfig)?.resolve(None)?;
        let endpoint = Endpoint::new(&config, "oracle")?;
        let server = endpoint.servers.first().context("the kubeconfig names no server")?;
        let authority = server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let mut tls = rustls::ClientConfig::clone(&endpoint.tls);
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { authority, tls: TlsConnector::from(Arc::new(tls)), sender: Mutex::new(None) })
    }

    /// `host:port` of the server.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends one request and reads the whole answer.
    ///
    /// # Errors
    /// When there is no answer within two minutes.
    pub async fn send(&self, mut request: http::Request<Full<Bytes>>) -> anyhow::Result<Reply> {
        request.headers_mut().insert(http::header::HOST, self.authority.parse()?);
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("oracle"));
        timeout(BUDGET, self.exchange(request)).await.map_err(|_| anyhow!("no answer within {BUDGET:?}"))?
    }

    async fn exchange(&self, request: http::Request<Full<Bytes>>) -> anyhow::Result<Reply> {
        let mut slot = self.sender.lock().await;
        let ready = match slot.take() {
            Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
            None => None,
        };
        let mut sender = match ready {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        *slot = Some(sender);
        Ok(Reply { code: head.status.as_u16(), headers: head.headers, body })
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host).to_owned();
        let tcp = TcpStream::connect(&self.authority).await.with_context(|| self.authority.clone())?;
        tcp.set_nodelay(true)?;
        let tls = self.tls.connect(ServerName::try_from(host)?, tcp).await?;
        let (sender, connection) = handshake(TokioIo::new(tls)).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "a test tool has no actor to own its connection; it ends with the sender"
        )]
        tokio::spawn(connection);
        Ok(sender)
    }
}

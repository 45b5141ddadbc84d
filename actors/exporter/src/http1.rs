//! HTTP/1.1 for OTLP. Each batch has a connection of its own: batches are seconds apart, and a connection that nobody watches needs no task.

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use oarlock_config::TracingExport;
use oarlock_pki::tls::{ServerTrust, client_config};
use opentelemetry_http::{HttpClient, HttpError};
use rustls_native_certs::CertificateResult;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The most bytes of an answer that are read.
const MAX_ANSWER: usize = 64 << 10;

/// The address of a collector.
pub(crate) struct Http1 {
    host: String,
    port: u16,
    authority: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Http1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http1").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Http1 {
    /// Reads the address.
    ///
    /// # Errors
    /// What is wrong with endpoint or certificate.
    pub(crate) fn new(settings: &TracingExport) -> Result<Self, String> {
        let uri = settings.endpoint.parse::<Uri>().map_err(|error| error.to_string())?;
        let host = uri.host().ok_or("names no host")?.trim_matches(['[', ']']).to_owned();
        let secure = uri.scheme_str() == Some("https");
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let authority = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
        let tls = if secure { Some((connector(settings)?, server_name(&host)?)) } else { None };
        Ok(Self { port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }), host, authority, tls })
    }

    async fn exchange<I>(&self, io: I, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
        *request.uri_mut() = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse()?;
        request.headers_mut().insert(header::HOST, self.authority.clone());
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let answer = async {
            let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        // The connection moves bytes only while it is polled. When it ends first, the answer still arrives, or fails.
        let carried = async {
            let _the_answer_has_the_error = connection.await;
            std::future::pending::<()>().await;
        };
        let (answer, carried) = (pin!(answer), pin!(carried));
        tokio::select! {
            answer = answer => answer,
            () = carried => Err("the connection has ended".into()),
        }
    }
}

#[async_trait]
impl HttpClient for Http1 {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let connection = TcpStream::connect((self.host.as_str(), self.port)).await?;
        match &self.tls {
            None => self.exchange(connection, request).await,
            Some((connector, name)) => {
                let secured = connector.connect(name.clone(), connection).await?;
                self.exchange(secured, request).await
            }
        }
    }
}

fn connector(settings: &TracingExport) -> Result<TlsConnector, String> {
    let authorities = match &settings.authorities {
        Some(pem) => {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            read.map_err(|error| format!("certificate authorities: {error}"))?
        }
        None => of_the_machine(rustls_native_certs::load_native_certs())?,
    };
    let mut config = client_config(ServerTrust::Authorities(authorities), None).map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns the machine's certificate authorities.
///
/// # Errors
/// When there are none: each connection would fail.
fn of_the_machine(found: CertificateResult) -> Result<Vec<CertificateDer<'static>>, String> {
    if found.certs.is_empty() {
        return Err(format!("the machine has no certificate authorities: {:?}", found.errors));
    }
    Ok(found.certs)
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_authorities_is_an_error_before_the_first_batch() {
        let error = of_the_machine(CertificateResult::default()).unwrap_err();
        assert!(error.starts_with("the machine has no certificate authorities"), "{error}");
        let mut found = CertificateResult::default();
        found.certs.push(CertificateDer::from(vec![1]));
        assert_eq!(of_the_machine(found).unwrap().len(), 1);
    }
}

//! Sends one GET request to a container, as Go's client does for probes and hooks (`pkg/probe/http`).

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::header::{HeaderName, HeaderValue, LOCATION};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use oarlock_runtime::clock;
use oarlock_schema::views::core_v1::{Container, HTTPGetAction};
use tokio::io::{AsyncRead, AsyncWrite};

use super::error::RequestError;
use super::port::{Port, port};
use super::{dial, tls};
use crate::environment::host_port;

/// Largest number of body bytes read.
const MAX_BODY_BYTES: usize = 10 << 10;
/// Largest number of redirects followed.
const MAX_REDIRECTS: usize = 10;
/// Timeout of connecting when the request has none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// An `httpGet` action of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpGet {
    pub(crate) https: bool,
    /// Host to connect to; empty for the pod's address.
    pub(crate) host: String,
    pub(crate) port: Port,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// URL of a request in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query, escaped.
    pub(crate) path: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// HTTP answer of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

/// The error of a request without an answer, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Get \"{url}\": {why}")]
pub(crate) struct Error {
    pub(crate) url: String,
    pub(crate) why: RequestError,
}

impl HttpGet {
    pub(crate) fn read(action: HTTPGetAction<'_>, container: Container<'_>) -> Self {
        let header = |header: oarlock_schema::views::core_v1::HTTPHeader<'_>| {
            (header.name().to_owned(), header.value().to_owned())
        };
        Self {
            https: action.scheme().eq_ignore_ascii_case("https"),
            host: action.host().to_owned(),
            port: port(action.port(), container),
            path: action.path().to_owned(),
            headers: action.http_headers().iter().map(header).collect(),
        }
    }

    /// Returns the URL for a pod with this address.
    ///
    /// # Errors
    /// When the port does not exist; upstream's text.
    pub(crate) fn target(&self, pod: &str) -> Result<Target, RequestError> {
        let host = if self.host.is_empty() { pod.to_owned() } else { self.host.clone() };
        Ok(Target { https: self.https, host, port: self.port.clone()?, path: escaped(&self.path) })
    }

    /// Returns the headers of the request; `purpose` is the purpose named in the default `User-Agent`.
    fn headers(&self, purpose: &str, host: &str) -> Result<Vec<(HeaderName, HeaderValue)>, RequestError> {
        let own = |name: &str| self.headers.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut all = vec![("Host".to_owned(), own("Host").map_or(host, |(_, value)| value).to_owned())];
        if own("User-Agent").is_none() {
            all.push(("User-Agent".to_owned(), format!("kube-{purpose}/1.35")));
        }
        if own("Accept").is_none() {
            all.push(("Accept".to_owned(), "*/*".to_owned()));
        }
        let passed = |name: &str, value: &str| {
            !(name.eq_ignore_ascii_case("Host") || value.is_empty() && name.eq_ignore_ascii_case("Accept"))
        };
        all.extend(self.headers.iter().filter(|(name, value)| passed(name, value)).cloned());
        all.push(("Connection".to_owned(), "close".to_owned()));
        let parse = |(name, value): (String, String)| {
            let invalid = |part| RequestError::Header { part, header: name.clone() };
            let key = HeaderName::try_from(&name).map_err(|_| invalid("name"))?;
            Ok((key, HeaderValue::try_from(&value).map_err(|_| invalid("value"))?))
        };
        all.into_iter().map(parse).collect()
    }
}

impl Target {
    pub(crate) fn authority(&self) -> String {
        host_port(&self.host, self.port.into())
    }

    /// Returns the request after a redirect to the same host; `None` for another host, which probes do not follow.
    fn redirected(&self, location: &str) -> Option<Self> {
        if !location.contains("://") {
            // A relative location starts at the directory of the path, or at the host.
            let base = self.path.split('?').next().unwrap_or("/");
            let dir = if location.starts_with('/') { "" } else { base.rsplit_once('/').map_or("", |(dir, _)| dir) };
            let path = escaped(&format!("{dir}/{}", location.trim_start_matches('/')));
            return Some(Self { path, ..self.clone() });
        }
        let uri: Uri = location.parse().ok()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let host = uri.host()?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => self.https,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        (host == self.host).then(|| Self { https, host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// Sends the request; a redirect to the same host is followed. Without `timeout` the caller must set a deadline.
///
/// # Errors
/// When there is no answer; Go's text.
pub(crate) async fn get(
    target: &Target,
    spec: &HttpGet,
    purpose: &str,
    timeout: Option<Duration>,
) -> Result<Answer, Error> {
    let url = target.to_string();
    let failed = |why| Error { url: url.clone(), why };
    let whole = follow(target, spec, purpose);
    let Some(timeout) = timeout else { return whole.await.map_err(failed) };
    match clock::timeout(timeout, whole).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(failed(RequestError::Timeout)),
    }
}

async fn follow(target: &Target, spec: &HttpGet, purpose: &str) -> Result<Answer, RequestError> {
    let mut at = target.clone();
    for _ in 0..MAX_REDIRECTS {
        let (answer, location) = once(&at, spec, purpose).await?;
        let next = location.filter(|_| matches!(answer.code, 301 | 302 | 303 | 307 | 308));
        match next.and_then(|location| at.redirected(&location)) {
            Some(next) => at = next,
            None => return Ok(answer),
        }
    }
    Err(RequestError::Redirects(MAX_REDIRECTS))
}

async fn once(target: &Target, spec: &HttpGet, purpose: &str) -> Result<(Answer, Option<String>), RequestError> {
    let mut request = Request::get(&target.path);
    if let Some(headers) = request.headers_mut() {
        for (name, value) in spec.headers(purpose, &target.authority())? {
            headers.append(name, value);
        }
    }
    let request = request.body(Empty::new()).map_err(|error| RequestError::Malformed(error.to_string()))?;
    let stream = dial::connect(&target.host, target.port, CONNECT_TIMEOUT).await?;
    if target.https {
        exchange(tls::wrap(&target.host, stream).await?, request).await
    } else {
        exchange(stream, request).await
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<Empty<Bytes>>,
) -> Result<(Answer, Option<String>), RequestError> {
    let builder = http1::Builder::new().title_case_headers(true).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = builder.map_err(|error| interrupted(&error))?;
    let work = async move {
        let response = sender.send_request(request).await.map_err(|error| interrupted(&error))?;
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let code = response.status().as_u16();
        Ok((Answer { code, body: body(response).await? }, location))
    };
    let (mut work, mut connection) = (std::pin::pin!(work), std::pin::pin!(connection));
    tokio::select! {
        biased;
        answer = &mut work => answer,
        // The connection ended, but data received before may still be unread.
        _ = &mut connection => work.await,
    }
}

async fn body(mut response: Response<hyper::body::Incoming>) -> Result<String, RequestError> {
    let mut body = Vec::new();
    while let Some(frame) = response.frame().await {
        if let Ok(data) = frame.map_err(|error| interrupted(&error))?.into_data() {
            body.extend_from_slice(&data);
        }
        if body.len() >= MAX_BODY_BYTES {
            body.truncate(MAX_BODY_BYTES);
            break;
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Returns the error of an interrupted exchange; Go says `EOF` when a connection ends without an answer.
fn interrupted(error: &hyper::Error) -> RequestError {
    if error.is_incomplete_message() || error.is_canceled() {
        return RequestError::Interrupted("EOF".to_owned());
    }
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    RequestError::Interrupted(cause.map_or_else(|| error.to_string(), dial::plain))
}

/// Returns a path for a request: with a leading slash, without fragment, and escaped.
fn escaped(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut out = if path.starts_with('/') { String::new() } else { "/".to_owned() };
    for byte in path.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=b' ' | 0x7f.. => {
                out.push_str(&format!("%{byte:02X}"));
            }
            byte => out.push(char::from(byte)),
        }
    }
    out
}

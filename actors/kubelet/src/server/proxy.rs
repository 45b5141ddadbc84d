//! Relays upgraded connections to the runtime's streaming server, byte for byte (upstream `proxyStream`).

use std::time::Duration;

use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use oarlock_runtime::clock;
use oarlock_streams::upgrade;
use tokio::net::TcpStream;

use super::Server;
use super::answer::{self, Answer, Refusal};

/// How long the streaming server on this host may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Forwards a request to `url`, and joins the two connections if the streaming server accepts the upgrade.
pub(super) async fn pass(server: &Server, mut request: Request<Incoming>, url: &str) -> Result<Answer, Refusal> {
    if !upgrade::wanted(request.headers()) {
        return Err(Refusal::new(500, "Upgrade request required"));
    }
    let broken = |error: &dyn std::fmt::Display| Refusal::new(500, format!("error dialing backend: {error}"));
    let uri: Uri = url.parse().map_err(|error| broken(&error))?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(broken(&format_args!("the streaming server's address is no http URL: {url}")));
    };
    let host = host.trim_matches(['[', ']']);
    let dial = async {
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await.map_err(|error| broken(&error))?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        let asked = asked(&request, &uri)?;
        let (response, carry) = upgrade::send(stream, asked).await.map_err(|error| broken(&error))?;
        // The connection's task lives as long as its streams.
        let gate = server.inner.streams.clone();
        let stop = gate.token();
        let carry = async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = carry => {}
            }
        };
        gate.spawn("runtime", carry).map_err(|error| broken(&error))?;
        response.await.map_err(|error| broken(&error))
    };
    let response = clock::timeout(ANSWER_TIMEOUT, dial).await.map_err(|_| broken(&"no answer in time"))??;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let code = response.status().as_u16();
        if code < 400 {
            return Err(Refusal::new(500, format!("invalid upgrade response: status code {code}")));
        }
        return Ok(answer::passed(response));
    }
    let headers = response.headers().clone();
    let (near, far) = (hyper::upgrade::on(&mut request), hyper::upgrade::on(response));
    let stop = server.inner.streams.token();
    let joined = async move {
        let joined = async {
            match tokio::try_join!(upgrade::take(near), upgrade::take(far)) {
                Ok((near, far)) => upgrade::join(near, far).await,
                Err(error) => tracing::debug!(%error, "connection was not given away"),
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = joined => {}
        }
    };
    server.inner.streams.spawn("stream", joined).map_err(|error| broken(&error))?;
    Ok(answer::upgraded(headers))
}

/// Returns the request for the streaming server.
fn asked(request: &Request<Incoming>, uri: &Uri) -> Result<Request<Empty<Bytes>>, Refusal> {
    let mut asked = Request::new(Empty::new());
    *asked.method_mut() = request.method().clone();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    *asked.uri_mut() = target.parse().map_err(|_| Refusal::new(500, "the streaming server's address has no path"))?;
    let headers: &mut HeaderMap = asked.headers_mut();
    *headers = request.headers().clone();
    // The caller's credentials are for the kubelet only; lengths and hosts belong to the connection.
    for name in [header::AUTHORIZATION, header::CONTENT_LENGTH, header::HOST, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    if let Some(authority) = uri.authority().and_then(|authority| authority.as_str().parse().ok()) {
        headers.insert(header::HOST, authority);
    }
    Ok(asked)
}

//! `pods/exec`, `pods/attach`, `pods/portforward`: upgraded connections that are translated, tunnelled (KEP-4006), or passed on unchanged.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use oarlock_auth::Decision;
use oarlock_meta::Status;
use oarlock_streams::remote_command::{self, PROTOCOL_HEADER, PROTOCOLS, Protocol, Streams, V5};
use oarlock_streams::{BoxIo, spdy, upgrade, websocket};

use super::send::{bare, passed, send};
use super::{Location, Remote, choose_container, pod_and_node};
use crate::caller::Caller;
use crate::http::options::Query;
use crate::http::request_info::RequestInfo;
use crate::http::{Body, full};
use crate::inflight::Seat;
use crate::server::Server;
use crate::target::Target;

/// Number of bytes of a kubelet's error message that are read.
const REFUSAL_MAX: usize = 50_000;

/// Serves a request, which must ask for an upgrade of its connection.
///
/// # Errors
/// 403 without the right to create; 404; 400 for a container that the pod does not have; and the kubelet's error.
pub(super) async fn serve(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    info: &RequestInfo,
    query: &Query,
    request: Request<Incoming>,
    seat: Seat,
) -> Result<Response<Body>, Status> {
    may_create(server, caller, target, info)?;
    let (pod, node) = pod_and_node(server, target).await?;
    let streams = streams(query);
    let path = match target.subresource {
        "portforward" => {
            let ports = query.all("ports").collect::<Vec<_>>().join(",");
            let query = if ports.is_empty() { String::new() } else { format!("?port={}", escaped(&ports)) };
            format!("/portForward/{}/{}{query}", target.namespace, target.name)
        }
        what => {
            let container = choose_container(&pod, query.get("container"))?;
            let parameters = parameters(query, streams, what == "exec");
            format!("/{what}/{}/{}/{container}?{parameters}", target.namespace, target.name)
        }
    };
    if node.is_empty() {
        return Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name)));
    }
    let call = KubeletRequest { server: server.clone(), to: Location::kubelet(node, true), path, seat };
    let headers = request.headers();
    let websocket = websocket::asked(headers);
    if websocket && target.subresource != "portforward" && websocket::protocols(headers).any(|offered| offered == V5) {
        return call.translate(request, streams);
    }
    if websocket && target.subresource == "portforward" && websocket::tunnelled(headers).next().is_some() {
        return call.tunnel(request).await;
    }
    call.pass(request).await
}

/// Checks that the user of a GET has the right that a POST needs (upstream `AuthorizePodWebsocketUpgradeCreatePermission`).
fn may_create(server: &Server, caller: &Caller, target: &Target<'_>, info: &RequestInfo) -> Result<(), Status> {
    if info.verb == "create" {
        return Ok(());
    }
    let resource = target.resource();
    let attributes = oarlock_auth::Attributes {
        version: resource.version,
        subresource: target.subresource,
        namespace: target.namespace,
        name: target.name,
        ..oarlock_auth::Attributes::resource(&caller.user, "create", resource.group, resource.plural)
    };
    match server.authorizers().authorize(&attributes) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => {
            Err(Status::forbidden(&resource.group_resource(), target.name, reason))
        }
    }
}

fn streams(query: &Query) -> Streams {
    let set = |name| query.flag(name) == Some(true);
    Streams { stdin: set("stdin"), stdout: set("stdout"), stderr: set("stderr"), tty: set("tty") }
}

/// Returns the options as the kubelet's query parameters.
fn parameters(query: &Query, streams: Streams, command: bool) -> String {
    let flags = [("input", streams.stdin), ("output", streams.stdout), ("error", streams.stderr), ("tty", streams.tty)];
    let flags = flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| format!("{name}=1"));
    let command = query.all("command").filter(|_| command).map(|part| format!("command={}", escaped(part)));
    command.chain(flags).collect::<Vec<_>>().join("&")
}

/// Escapes a text as a value in a query.
pub(crate) fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:,/".contains(&byte) {
            out.push(byte.into());
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// A request to be sent to a kubelet.
struct KubeletRequest {
    server: Server,
    to: Location,
    path: String,
    seat: Seat,
}

impl KubeletRequest {
    /// Translates between WebSocket v5 of the client and SPDY of the kubelet. The client is upgraded at once; later errors are sent on the error
    /// channel.
    fn translate(self, mut request: Request<Incoming>, streams: Streams) -> Result<Response<Body>, Status> {
        let answer = websocket::accept(request.headers(), Some(V5)).map_err(Status::bad_request)?;
        let client = hyper::upgrade::on(&mut request);
        let server = self.server.clone();
        spawn(&server, async move {
            let Ok(client) = upgrade::take(client).await else { return };
            let client = websocket::serve(client).await;
            let opened = match self.spdy(&PROTOCOLS).await {
                Ok(answer) => granted(answer).await,
                Err(status) => Err(remote_command::failure(status.message)),
            };
            match opened {
                Ok((kubelet, protocol)) => {
                    remote_command::translate(client, kubelet, protocol, streams).await;
                }
                Err(status) => remote_command::refuse(client, streams, status).await,
            }
        })?;
        Ok(answer.map(|()| full(Bytes::new())))
    }

    /// Unwraps SPDY inside the client's WebSocket and connects it to the kubelet's SPDY.
    async fn tunnel(self, mut request: Request<Incoming>) -> Result<Response<Body>, Status> {
        let offered: Vec<&str> = websocket::tunnelled(request.headers()).collect();
        let server = self.server.clone();
        let answer = self.spdy(&offered).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return refused(answer);
        }
        if !upgrade::granted(&answer, spdy::UPGRADE) {
            return Err(Status::unexpected("unable to upgrade: missing upgrade headers in response"));
        }
        let chosen = header_of(answer.headers(), PROTOCOL_HEADER).map(websocket::tunnel_of);
        let response = websocket::accept(request.headers(), chosen.as_deref()).map_err(Status::bad_request)?;
        let (client, kubelet) = (hyper::upgrade::on(&mut request), hyper::upgrade::on(answer));
        spawn(&server, async move {
            if let Ok((client, kubelet)) = tokio::try_join!(upgrade::take(client), upgrade::take(kubelet)) {
                websocket::tunnel(websocket::serve(client).await, kubelet).await;
            }
        })?;
        Ok(response.map(|()| full(Bytes::new())))
    }

    /// Passes the request on unchanged.
    async fn pass(self, request: Request<Incoming>) -> Result<Response<Body>, Status> {
        let asked = bare(request.method().clone(), &self.path)?;
        join(&self.server, &self.to, request, asked, self.seat).await
    }

    /// Asks the kubelet for an upgrade to SPDY.
    async fn spdy(self, protocols: &[&str]) -> Result<Response<Incoming>, Status> {
        let mut request = bare(Method::POST, &self.path)?;
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static(spdy::UPGRADE));
        for protocol in protocols {
            let protocol = HeaderValue::from_str(protocol).map_err(Status::internal_error)?;
            headers.append(HeaderName::from_static(PROTOCOL_HEADER), protocol);
        }
        send(&self.server, &self.to, request, self.seat).await
    }
}

/// Runs a stream until it ends, or the server stops.
fn spawn(server: &Server, work: impl Future<Output = ()> + Send + 'static) -> Result<(), Status> {
    let stop = server.streams().token();
    let work = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    };
    server.streams().spawn("stream", work).map_err(|error| Status::service_unavailable(error.to_string()))?;
    Ok(())
}

/// Passes an upgrade request on, and joins the two connections when the upgrade is granted.
pub(super) async fn join(
    server: &Server,
    to: &Location,
    mut request: Request<Incoming>,
    mut asked: Request<Empty<Bytes>>,
    seat: Seat,
) -> Result<Response<Body>, Status> {
    if !upgrade::wanted(request.headers()) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    request.headers().clone_into(asked.headers_mut());
    // Lengths and hosts are those of the next connection.
    for name in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        asked.headers_mut().remove(name);
    }
    forwarded_for(&request, asked.headers_mut());
    let answer = send(server, to, asked, seat).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return refused(answer);
    }
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers().clone_into(response.headers_mut());
    let (client, backend) = (hyper::upgrade::on(&mut request), hyper::upgrade::on(answer));
    spawn(server, async move {
        if let Ok((client, backend)) = tokio::try_join!(upgrade::take(client), upgrade::take(backend)) {
            upgrade::join(client, backend).await;
        }
    })?;
    Ok(response)
}

/// Passes back an answer that is not an upgrade.
fn refused(answer: Response<Incoming>) -> Result<Response<Body>, Status> {
    let code = answer.status().as_u16();
    if code < 400 {
        return Err(Status::unexpected(format!("invalid upgrade response: status code {code}")));
    }
    Ok(passed(answer))
}

/// Adds the client's address to `X-Forwarded-For`.
pub(super) fn forwarded_for<B>(request: &Request<B>, headers: &mut HeaderMap) {
    const NAME: HeaderName = HeaderName::from_static("x-forwarded-for");
    let Some(Remote(client)) = request.extensions().get() else { return };
    let client = client.ip().to_string();
    let all = header_of(headers, NAME.as_str()).map_or_else(|| client.clone(), |before| format!("{before}, {client}"));
    if let Ok(all) = HeaderValue::from_str(&all) {
        headers.insert(NAME, all);
    }
}

fn header_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|value| !value.is_empty())
}

/// Returns the kubelet's SPDY connection and the protocol that it chose, or the error for the client.
async fn granted(answer: Response<Incoming>) -> Result<(BoxIo, Protocol), Status> {
    if !upgrade::granted(&answer, spdy::UPGRADE) {
        let limited = http_body_util::Limited::new(answer.into_body(), REFUSAL_MAX);
        let text = match limited.collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::from_static(b"unable to read error from server response"),
        };
        if let Ok(status) = serde_json::from_slice::<Status>(&text) {
            return Err(status);
        }
        let text = String::from_utf8_lossy(&text);
        return Err(remote_command::failure(format_args!("unable to upgrade connection: {}", text.trim())));
    }
    let name = header_of(answer.headers(), PROTOCOL_HEADER).unwrap_or("").to_owned();
    let unknown =
        || remote_command::failure(format_args!("unable to upgrade connection: protocol {name:?} is unknown"));
    let protocol = Protocol::chosen(&name).ok_or_else(unknown)?;
    let taken = upgrade::take(hyper::upgrade::on(answer)).await;
    let kubelet =
        taken.map_err(|error| remote_command::failure(format_args!("unable to upgrade connection: {error}")))?;
    Ok((Box::new(kubelet), protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_kubelets_names() {
        let query = Query::new("stdin=true&stdout=1&stderr=false&command=sh&command=-c&command=a%20b%26c&container=x");
        assert_eq!(
            parameters(&query, streams(&query), true),
            "command=sh&command=-c&command=a%20b%26c&input=1&output=1"
        );
        assert_eq!(parameters(&query, streams(&query), false), "input=1&output=1");
    }
}

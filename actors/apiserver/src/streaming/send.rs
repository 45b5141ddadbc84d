//! Sends one request to its destination and passes the answer back.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use oarlock_meta::Status;
use oarlock_streams::upgrade;
use oarlock_telemetry::traces::{self, traceparent};

use super::location::Location;
use crate::http::{Body, BodyError};
use crate::inflight::Seat;
use crate::server::Server;

/// Hop-by-hop headers, which apply to one connection only (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Sends a request over a connection of its own, which lives until the answer's body has been read or the connection has been upgraded, and keeps the seat as long.
/// A kubelet gets the context of the request's span; what is proxied to other places keeps the client's.
///
/// # Errors
/// 404 for an unknown node, 500 when there is no connection or no answer.
pub(crate) async fn send<B>(
    server: &Server,
    to: &Location,
    mut request: Request<B>,
    seat: Seat,
) -> Result<Response<Incoming>, Status>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    if !request.headers().contains_key(header::HOST) {
        let host = HeaderValue::from_str(&to.host()).map_err(Status::internal_error)?;
        request.headers_mut().insert(header::HOST, host);
    }
    if matches!(to, Location::Kubelet { .. }) {
        name_span(request.headers_mut());
    }
    let io = to.connect(server, seat).await?;
    let failed = |error: hyper::Error| Status::unexpected(format!("error sending request: {error}"));
    let (answer, carry) = upgrade::send(io, request).await.map_err(failed)?;
    let stop = server.streams().token();
    let carry = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = carry => {}
        }
    };
    server.streams().spawn("backend", carry).map_err(|error| Status::service_unavailable(error.to_string()))?;
    answer.await.map_err(failed)
}

/// Names the span that runs as the cause of a request, in place of the client's.
fn name_span(headers: &mut HeaderMap) {
    headers.remove(traceparent::HEADER);
    let own = traceparent::text(&traces::current()).and_then(|text| HeaderValue::try_from(text).ok());
    if let Some(own) = own {
        headers.insert(traceparent::HEADER, own);
    }
}

/// Builds a request without a body.
///
/// # Errors
/// 500 when the path is invalid.
pub(crate) fn bare(method: Method, path: &str) -> Result<Request<Empty<Bytes>>, Status> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(Status::internal_error)?;
    Ok(request)
}

/// Passes an answer back. When its body is cut off, the returned body is cut off too.
pub(crate) fn passed(mut response: Response<Incoming>) -> Response<Body> {
    forget_hops(response.headers_mut());
    response.map(|body| body.map_err(BodyError::from).boxed_unsync())
}

/// Removes the hop-by-hop headers.
pub(super) fn forget_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubelet_gets_the_span_of_the_request_and_never_the_clients() {
        const OWN: &str = "00-0000000000000000000000000000feed-0000000000000001-01";
        let named = async || {
            let mut headers = HeaderMap::new();
            headers.insert(
                traceparent::HEADER,
                HeaderValue::from_static("00-000000000000000000000000000bad00-0000000000000002-01"),
            );
            name_span(&mut headers);
            headers.remove(traceparent::HEADER).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(named().await, None);
        assert_eq!(traces::within(traceparent::parse(OWN), named()).await.as_deref(), Some(OWN));
    }
}

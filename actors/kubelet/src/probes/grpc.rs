//! gRPC probes: one `Check` of the gRPC health protocol, with upstream's texts (`pkg/probe/grpc`).

use std::error::Error as _;
use std::time::Duration;

use http::StatusCode;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use oarlock_contracts::health::health_check_response::ServingStatus;
use oarlock_contracts::health::{Health, HealthCheckRequest, HealthCheckResponse};
use oarlock_meta::GoDuration;
use oarlock_runtime::{Instant, clock};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::dial;
use super::error::RequestError;
use crate::environment::host_port;
use crate::grpc::{rpc_error, with_causes};

/// Pause between attempts to connect.
const CONNECT_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Size limit of an answer, in bytes; a health answer has two.
const LARGEST_ANSWER: usize = 4096;
/// First part of the `user-agent`; the library's name follows.
const USER_AGENT: &str = "kube-probe/1.35";
/// First part of tonic's text about an HTTP answer without a gRPC status; the HTTP status follows.
const WITHOUT_GRPC_STATUS: &str = "grpc-status header missing, mapped from HTTP status code ";

/// Asks the health service about `service`.
///
/// # Errors
/// When the check fails; upstream's text.
pub(super) async fn check(host: &str, port: u16, service: &str, timeout: Duration) -> Result<(), RequestError> {
    let deadline = clock::after(timeout);
    let shown = GoDuration::from_secs(i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX));
    let at = host_port(host, port.into());
    let Some(channel) = connect(host, port, deadline).await else {
        return Err(RequestError::GrpcConnectTimeout { address: at, within: shown });
    };
    let late = Status::deadline_exceeded("");
    let status = match clock::timeout_at(deadline, call(channel, service)).await.unwrap_or(Err(late)) {
        Ok(status) => status,
        Err(error) => return Err(RequestError::Grpc(failure(&error, shown))),
    };
    let name = match ServingStatus::try_from(status) {
        Ok(ServingStatus::Serving) => return Ok(()),
        Ok(other) => other.as_str_name().to_owned(),
        Err(_) => status.to_string(),
    };
    Err(RequestError::Unhealthy(name))
}

/// Connects, as upstream's client does, with retries until the deadline.
async fn connect(host: &str, port: u16, deadline: Instant) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", host_port(host, port.into()))).ok()?;
    let endpoint = endpoint.user_agent(USER_AGENT).ok()?;
    loop {
        let host = host.to_owned();
        let connector = tower::service_fn(move |_: Uri| {
            let host = host.clone();
            async move {
                let stream = dial::connect(&host, port, deadline.remaining()).await;
                stream.map(TokioIo::new).map_err(std::io::Error::other)
            }
        });
        if let Ok(channel) = endpoint.connect_with_connector(connector).await {
            return Some(channel);
        }
        if deadline.remaining() < CONNECT_RETRY_PAUSE {
            clock::sleep_until(deadline).await;
            return None;
        }
        clock::sleep(CONNECT_RETRY_PAUSE).await;
    }
}

/// Returns the status from the health service, possibly a number that the protocol does not define yet.
async fn call(channel: Channel, service: &str) -> Result<i32, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(LARGEST_ANSWER);
    grpc.ready().await.map_err(|error| Status::unavailable(with_causes(&error)))?;
    let request = Request::new(HealthCheckRequest { service: service.to_owned() });
    let path = PathAndQuery::from_static(Health::CHECK.path());
    let HealthCheckResponse { status } = grpc.unary(request, path, ProstCodec::default()).await?.into_inner();
    Ok(status)
}

/// Returns upstream's text about a failed call.
fn failure(status: &Status, timeout: GoDuration) -> String {
    let (code, description) = match status.source() {
        // Not sent by a server: the connection broke.
        Some(_) => (Code::Unavailable, with_causes(status)),
        None => (status.code(), description(status.message())),
    };
    match code {
        Code::Unimplemented => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {description}"
        ),
        Code::DeadlineExceeded => format!("timeout: health rpc did not complete within {timeout}"),
        code => format!("error: health rpc probe failed: {}", rpc_error(code, &description)),
    }
}

/// Returns the server's message; for an HTTP answer without gRPC the text of Go's gRPC.
fn description(message: &str) -> String {
    match message.strip_prefix(WITHOUT_GRPC_STATUS).and_then(|status| status.parse::<StatusCode>().ok()) {
        Some(status) => format!(
            "unexpected HTTP status code received from server: {} ({})",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default()
        ),
        None => message.to_owned(),
    }
}

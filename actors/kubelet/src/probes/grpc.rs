//! `grpc.health.v1.Health/Check` (`pkg/probe/grpc`): one unary call, so HTTP/2 and two small messages are all it takes.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use oarlock_meta::GoDuration;
use oarlock_meta::quote::quote;
use oarlock_runtime::{Instant, clock};
use prost::Message;
use tokio::net::TcpStream;

use super::dial;
use crate::environment::host_port;

/// Between attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest message that is read, in bytes; a health answer has two.
const LONGEST: usize = 4096;

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// A failure of a call, with the names of gRPC's codes.
#[derive(Debug)]
struct Failed {
    code: u32,
    message: String,
}

const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const UNKNOWN: u32 = 2;
const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

/// Asks a service whether it serves.
///
/// # Errors
/// Upstream's text of the failure.
pub(super) async fn check(host: &str, port: u16, service: &str, timeout: Duration) -> Result<(), String> {
    let deadline = clock::after(timeout);
    let shown = GoDuration::from_secs(i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX));
    let at = host_port(host, port.into());
    let Some(stream) = connect(host, port, deadline).await else {
        return Err(format!(
            "timeout: failed to connect service {} within {shown}: context deadline exceeded",
            quote(&at)
        ));
    };
    let late = Failed { code: DEADLINE_EXCEEDED, message: String::new() };
    let status = clock::timeout_at(deadline, call(stream, &at, service)).await.unwrap_or(Err(late));
    match status {
        Ok(1) => Ok(()),
        Ok(status) => {
            let name = match status {
                0 => "UNKNOWN".to_owned(),
                2 => "NOT_SERVING".to_owned(),
                3 => "SERVICE_UNKNOWN".to_owned(),
                other => other.to_string(),
            };
            Err(format!("service unhealthy (responded with {})", quote(&name)))
        }
        Err(Failed { code: UNIMPLEMENTED, message }) => Err(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Err(Failed { code: DEADLINE_EXCEEDED, .. }) => {
            Err(format!("timeout: health rpc did not complete within {shown}"))
        }
        Err(Failed { code, message }) => {
            let name = usize::try_from(code).ok().and_then(|at| CODES.get(at)).copied();
            let name = name.map_or_else(|| format!("Code({code})"), str::to_owned);
            Err(format!("error: health rpc probe failed: rpc error: code = {name} desc = {message}"))
        }
    }
}

/// As upstream's client, which tries until the time is over.
async fn connect(host: &str, port: u16, deadline: Instant) -> Option<TcpStream> {
    loop {
        if let Ok(stream) = dial::connect(host, port, deadline.remaining()).await {
            return Some(stream);
        }
        if deadline.remaining() < AGAIN {
            clock::sleep_until(deadline).await;
            return None;
        }
        clock::sleep(AGAIN).await;
    }
}

async fn call(stream: TcpStream, authority: &str, service: &str) -> Result<i32, Failed> {
    let unavailable = |error: h2::Error| Failed { code: UNAVAILABLE, message: error.to_string() };
    let (sender, connection) = h2::client::handshake(stream).await.map_err(unavailable)?;
    let (mut work, mut connection) = (std::pin::pin!(exchange(sender, authority, service)), std::pin::pin!(connection));
    tokio::select! {
        biased;
        status = &mut work => status,
        _ = &mut connection => work.await,
    }
}

async fn exchange(sender: SendRequest<Bytes>, authority: &str, service: &str) -> Result<i32, Failed> {
    let broken = |error: h2::Error| Failed { code: UNAVAILABLE, message: error.to_string() };
    let request = http::Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.35 grpc-oarlock")
        .body(())
        .map_err(|error| Failed { code: INTERNAL, message: error.to_string() })?;
    let mut sender = sender.ready().await.map_err(broken)?;
    let (response, mut body) = sender.send_request(request, false).map_err(broken)?;
    body.send_data(frame(&HealthCheckRequest { service: service.to_owned() }), true).map_err(broken)?;
    let response = response.await.map_err(broken)?;
    let (parts, mut body) = response.into_parts();
    // An answer may be nothing but trailers.
    status(&parts.headers)?;
    if parts.status != http::StatusCode::OK {
        let message = format!("unexpected HTTP status code received from server: {}", parts.status);
        let code = if parts.status == http::StatusCode::NOT_FOUND { UNIMPLEMENTED } else { UNKNOWN };
        return Err(Failed { code, message });
    }
    let mut data = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(broken)?;
        data.extend_from_slice(&part);
        body.flow_control().release_capacity(part.len()).map_err(broken)?;
        if data.len() > LONGEST {
            return Err(Failed { code: 8, message: "received message is too large".to_owned() });
        }
    }
    if let Some(trailers) = body.trailers().await.map_err(broken)? {
        status(&trailers)?;
    }
    let message = data.get(5..).filter(|_| data.first() == Some(&0));
    let message = message.and_then(|message| HealthCheckResponse::decode(message).ok());
    message
        .map(|message| message.status)
        .ok_or(Failed { code: INTERNAL, message: "no message in the answer".to_owned() })
}

/// A message behind its length.
fn frame(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(message.encoded_len()).unwrap_or(0));
    out.extend_from_slice(&message.encode_to_vec());
    out.freeze()
}

/// What headers or trailers say of the call's end, if anything.
fn status(headers: &http::HeaderMap) -> Result<(), Failed> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status").map(str::parse::<u32>) {
        None | Some(Ok(0)) => Ok(()),
        Some(Ok(code)) => Err(Failed { code, message: unescape(text("grpc-message").unwrap_or("")) }),
        Some(Err(_)) => Err(Failed { code: UNKNOWN, message: "malformed grpc-status".to_owned() }),
    }
}

/// gRPC escapes messages as URLs do.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = tail.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&out).into_owned()
}

//! Request bodies: media type, size limit, decoding with upstream's errors.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use oarlock_client::FieldValidation;
use oarlock_codec::negotiate::{self, Format};
use oarlock_codec::{DecodeError, Mode, body, handled_as, json, protobuf, strict_error, tree, yaml};
use oarlock_meta::{GroupVersionKind, Status};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::{Gvk, Obj, TypeRef};

use crate::caller::Caller;
use crate::large;

/// Time that a client has for the beginning of its body: several times the delay of a lost packet, since clients send the body right after the head.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of bytes for which a client gets one more second, a fraction of what the slowest modem line carries. A client that sends single bytes now
/// and then gets no more time.
const BYTES_PER_SECOND: u64 = 4 << 10;
/// Number of bytes that are read of the body of a refused request (Go: `maxPostHandlerReadBytes`).
const MAX_DISCARDED: usize = 256 << 10;
/// Time for these bytes (Go: `rstAvoidanceDelay`).
const DISCARD_TIMEOUT: Duration = Duration::from_millis(500);

/// Reads a body of at most `limit` bytes. A client that sends nothing or hardly anything would hold memory until `deadline`, so the time for the body
/// grows with the bytes received.
///
/// # Errors
/// 413 when the body is longer, 400 when the client breaks off, 504 when the body does not arrive in time.
pub async fn read<B>(body: B, limit: usize, deadline: Instant) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(Limited::new(body, limit));
    let began = clock::now();
    let mut first = Bytes::new();
    // One buffer, not one allocation per frame: frames of one byte would cost many times their content.
    let mut all = BytesMut::new();
    loop {
        let received = u64::try_from(first.len() + all.len()).unwrap_or(u64::MAX);
        let earned = Duration::from_millis(received.saturating_mul(1000) / BYTES_PER_SECOND);
        let until = (began + FIRST_BYTES_TIMEOUT + earned).min(deadline);
        let frame = match clock::timeout_at(until, body.frame()).await.map_err(|_| large::timed_out())? {
            Some(Ok(frame)) => frame,
            Some(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Status::request_too_large(format!("limit is {limit}")));
            }
            Some(Err(error)) => return Err(Status::bad_request(format!("unable to read request body: {error}"))),
            None if all.is_empty() => return Ok(first),
            None => return Ok(all.freeze()),
        };
        // Trailers are ignored: no request uses them.
        let Ok(data) = frame.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
}

/// Reads the body of a request that is refused, before the connection is closed: a client whose last bytes meet a closed connection is reset, and may
/// lose the answer. Only as much is read as upstream's HTTP server does, and only for a short time.
pub async fn discard<B>(body: B)
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(Limited::new(body, MAX_DISCARDED));
    let read = async { while let Some(Ok(_)) = body.frame().await {} };
    if clock::timeout(DISCARD_TIMEOUT, read).await.is_err() {
        tracing::debug!("the body of a refused request did not come");
    }
}

/// Returns the encoding of a body; JSON when the client names none.
///
/// # Errors
/// 415 for anything but JSON, YAML and protobuf.
pub fn media(headers: &HeaderMap) -> Result<Format, Status> {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    // Nearly every client states the bare type, which need not be parsed.
    match Format::ALL.into_iter().find(|format| format.media_type() == stated) {
        Some(format) => Ok(format),
        None => negotiate::input(stated),
    }
}

/// Decodes an object of the expected type.
///
/// # Errors
/// 400 for a body that does not decode, is of another kind or version, or has unknown or duplicate fields under strict validation.
pub fn object(
    format: Format,
    bytes: &Bytes,
    ty: TypeRef,
    expected: Gvk,
    validation: FieldValidation,
    caller: &Caller,
) -> Result<Obj, Status> {
    let mode = if validation == FieldValidation::Ignore { Mode::Lenient } else { Mode::Strict };
    let decoded = body::decode(format, bytes, ty, mode)?;
    let mut obj = decoded.value;
    if let Some(text) = strict_error(&decoded.findings) {
        match validation {
            FieldValidation::Strict => return Err(handled_as(expected.kind, expected.version, expected.kind, text)),
            FieldValidation::Ignore => {}
            _ => decoded.findings.iter().for_each(|finding| caller.warn(finding.to_string())),
        }
    }
    obj.set_gvk(ty.gvk.unwrap_or(expected));
    Ok(obj)
}

/// Decodes DeleteOptions, which clients send with any apiVersion.
///
/// # Errors
/// 400 for a body that does not decode and for another kind.
pub fn delete_options(format: Format, bytes: &Bytes, ty: TypeRef) -> Result<Obj, Status> {
    let refuse = |error: DecodeError| Status::bad_request(error.to_string());
    let (peeked, decoded) = match format {
        Format::Json => (json::peek_gvk(bytes), json::decode(bytes, ty, Mode::Lenient)),
        Format::Yaml => {
            let generic = yaml::decode_value(bytes, Mode::Lenient).map_err(refuse)?.value;
            (json::peek_value(&generic), tree::type_value(&generic, ty, Mode::Lenient))
        }
        Format::Protobuf => (protobuf::peek_gvk(bytes), protobuf::decode(bytes, ty)),
    };
    let options = GroupVersionKind::new("", "v1", "DeleteOptions");
    let stated = peeked.map_err(refuse)?.or(&options);
    if stated.kind != options.kind {
        return Err(Status::bad_request(body::no_kind(&stated)));
    }
    decoded.map(|decoded| decoded.value).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// A body of these pieces, each after a delay.
    fn body(pieces: Vec<(Duration, Bytes)>) -> impl Body<Data = Bytes, Error = Infallible> {
        StreamBody::new(stream::iter(pieces).then(|(after, piece)| async move {
            clock::sleep(after).await;
            Ok(Frame::data(piece))
        }))
    }

    async fn read_in(pieces: Vec<(Duration, Bytes)>) -> (Result<Bytes, u16>, Duration) {
        let began = clock::now();
        let read = read(body(pieces), 1 << 20, clock::after(60 * S)).await;
        (read.map_err(|status| status.code), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_has_ten_seconds_and_who_drips_has_no_more() {
        assert_eq!(read_in(vec![(3600 * S, Bytes::from("{"))]).await, (Err(504), 10 * S));
        let drips = vec![(S, Bytes::from("1")); 100];
        let (read, took) = read_in(drips).await;
        assert_eq!(read, Err(504));
        assert!(took < 11 * S, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_slowly_but_steadily_is_read_to_its_end_or_the_deadline() {
        let piece = Bytes::from(vec![b'x'; 8 << 10]);
        let (read, took) = read_in(vec![(S, piece.clone()); 40]).await;
        assert_eq!((read.unwrap().len(), took), (40 * (8 << 10), 40 * S));
        assert_eq!(read_in(vec![(S, piece); 100]).await, (Err(504), 60 * S));
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_come_together_in_their_order_and_too_many_are_refused() {
        let pieces = ["", "a", "", "b", "c"].map(|text| (Duration::ZERO, Bytes::from(text)));
        assert_eq!(read_in(pieces.to_vec()).await.0, Ok(Bytes::from("abc")));
        assert_eq!(read_in(Vec::new()).await.0, Ok(Bytes::new()));
        let long = Bytes::from(vec![b'x'; (1 << 19) + 1]);
        assert_eq!(read_in(vec![(Duration::ZERO, long); 2]).await.0, Err(413));
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_refused_request_little_is_read_and_not_for_long() {
        let discard_in = async |pieces| {
            let began = clock::now();
            discard(body(pieces)).await;
            began.elapsed()
        };
        let (late, early) = (S / 10, Bytes::from("{}"));
        assert_eq!(discard_in(vec![(late, early.clone()), (late, early.clone())]).await, 2 * late);
        assert_eq!(discard_in(vec![(3600 * S, early)]).await, DISCARD_TIMEOUT);
        let piece = Bytes::from(vec![b'x'; MAX_DISCARDED]);
        assert_eq!(discard_in(vec![(late, piece); 3]).await, 2 * late);
    }
}

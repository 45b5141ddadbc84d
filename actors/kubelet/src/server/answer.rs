//! Builds answers from other components' replies.

use futures::stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use oarlock_client::RawReply;
use oarlock_serving::answer::Failure;
pub(super) use oarlock_serving::answer::{Answer, Refusal, text, whole, with};

/// Returns an answer that streams the reply's body.
pub(super) fn reply(reply: RawReply) -> Answer {
    let media = reply.header("content-type").and_then(|media| HeaderValue::from_str(media).ok());
    let frames = stream::unfold(reply.body, |mut body| async move {
        let part = body.next().await?;
        Some((part.map(Frame::data).map_err(Failure::from), body))
    });
    let media = media.unwrap_or(HeaderValue::from_static("text/plain"));
    with(reply.code, media, StreamBody::new(frames).boxed_unsync())
}

/// Passes on another server's answer.
pub(super) fn passed(response: Response<hyper::body::Incoming>) -> Answer {
    response.map(|body| body.map_err(Failure::from).boxed_unsync())
}

/// Returns the head of an answer that upgrades the connection to another protocol.
pub(super) fn upgraded(headers: HeaderMap) -> Answer {
    let mut answer = Response::new(Full::default().map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    answer
}

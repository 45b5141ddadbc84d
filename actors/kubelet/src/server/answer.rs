//! Answers of the kubelet's server: plain HTTP, texts as upstream's.

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use oarlock_client::RawReply;
use oarlock_meta::Status;

/// Why a body breaks off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// What was to be told cannot be told.
    #[error(transparent)]
    Status(#[from] Status),
    /// Another server broke off.
    #[error(transparent)]
    Passed(#[from] hyper::Error),
}

/// An answer; a body that breaks off breaks the connection, so that nobody takes a part for the whole.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

/// A code and a text.
#[derive(Debug)]
pub(super) struct Refusal {
    code: u16,
    text: String,
}

impl Refusal {
    pub(super) fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        text(refusal.code, refusal.text)
    }
}

/// The apiserver or the node's actor failed.
impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::new(if status.code >= 400 { status.code } else { 500 }, status.message)
    }
}

pub(super) fn text(code: u16, text: impl Into<String>) -> Answer {
    whole(code, "text/plain; charset=utf-8", text.into())
}

pub(super) fn whole(code: u16, media: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    with(code, HeaderValue::from_static(media), body)
}

fn with(code: u16, media: HeaderValue, body: UnsyncBoxBody<Bytes, Failure>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, media);
    answer
}

/// A reply with a body that comes in parts.
pub(super) fn reply(reply: RawReply) -> Answer {
    let media = reply.header("content-type").and_then(|media| HeaderValue::from_str(media).ok());
    let frames = stream::unfold(reply.body, |mut body| async move {
        let part = body.next().await?;
        Some((part.map(Frame::data).map_err(Failure::from), body))
    });
    let media = media.unwrap_or(HeaderValue::from_static("text/plain"));
    with(reply.code, media, StreamBody::new(frames).boxed_unsync())
}

/// The answer of another server, passed on.
pub(super) fn passed(response: Response<hyper::body::Incoming>) -> Answer {
    response.map(|body| body.map_err(Failure::from).boxed_unsync())
}

/// The head of an answer whose connection goes to somebody else.
pub(super) fn upgraded(headers: http::HeaderMap) -> Answer {
    let mut answer = Response::new(Full::default().map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    answer
}

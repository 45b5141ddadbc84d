//! Answers: plain HTTP, texts as upstream's.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use oarlock_meta::Status;

/// Why a body breaks off.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Failure>;

/// An answer; a body that breaks off breaks the connection, so that nobody takes a part for the whole.
pub type Answer = Response<Body>;

/// A code and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: u16,
    /// What the client is told.
    pub text: String,
}

impl Refusal {
    /// With this code and text.
    pub fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// No such path.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "404 page not found\n")
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        text(refusal.code, refusal.text)
    }
}

/// The API server or an actor failed.
impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::new(if status.code >= 400 { status.code } else { 500 }, status.message)
    }
}

/// A text.
pub fn text(code: u16, text: impl Into<String>) -> Answer {
    whole(code, "text/plain; charset=utf-8", text.into())
}

/// A body that is there as a whole.
pub fn whole(code: u16, media: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    with(code, HeaderValue::from_static(media), body)
}

/// A body of this media type.
#[must_use]
pub fn with(code: u16, media: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, media);
    answer
}

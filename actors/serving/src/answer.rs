//! HTTP answers, with upstream's texts.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use oarlock_meta::Status;

/// The error that ends a body early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The body of an HTTP answer.
pub type Body = UnsyncBoxBody<Bytes, Failure>;

/// An HTTP answer. A body that ends early breaks the connection, so that no client takes a part for the whole.
pub type Answer = Response<Body>;

/// A refused or failed request: HTTP code and text of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The text of the answer.
    pub text: String,
}

impl Refusal {
    /// A refusal with this code and text.
    pub fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The refusal of an unknown path.
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

/// Converts the failure of the API server or an actor.
impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::new(if status.code >= 400 { status.code } else { 500 }, status.message)
    }
}

/// Returns an answer with a plain text.
pub fn text(code: u16, text: impl Into<String>) -> Answer {
    whole(code, "text/plain; charset=utf-8", text.into())
}

/// Returns an answer whose body is complete.
pub fn whole(code: u16, media: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    with(code, HeaderValue::from_static(media), body)
}

/// Returns an answer with a body of this media type.
#[must_use]
pub fn with(code: u16, media: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, media);
    answer
}

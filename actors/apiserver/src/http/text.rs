//! Answers whose body is not an API object.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::Body;

/// Converts the reply of a non-resource path to HTTP.
#[must_use]
pub fn reply(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(super::full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

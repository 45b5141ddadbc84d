//! Raw HTTP requests that are no verb on a resource: `/version`, `/healthz`, a pod's log.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_meta::Status;
use oarlock_schema::Str;

/// HTTP method of a raw request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

impl Method {
    /// Returns the method's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A raw HTTP request.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// The HTTP method.
    pub method: Method,
    /// Path and query, such as `/api/v1/namespaces/default/pods/p/log?follow=true`.
    pub path: String,
    /// Headers besides those of the identity; names in lower case.
    pub headers: Vec<(Str, Str)>,
    /// The body.
    pub body: Bytes,
    /// Budget until the head of the answer; the body may take longer.
    pub timeout: Duration,
}

impl RawRequest {
    /// Builds a `GET` of `path`.
    #[must_use]
    pub fn get(path: impl Into<String>, timeout: Duration) -> Self {
        Self { method: Method::Get, path: path.into(), headers: Vec::new(), body: Bytes::new(), timeout }
    }
}

/// Answer to a raw request, with any status code.
pub struct RawReply {
    /// The status code.
    pub code: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(Str, Str)>,
    /// The body.
    pub body: Box<dyn RawBody>,
}

impl RawReply {
    /// Returns the first header of this (lower case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// 413 when the body is longer than `limit` bytes; otherwise the error of [`RawBody::next`].
    pub async fn bytes(mut self, limit: usize) -> Result<Bytes, Status> {
        let mut whole = bytes::BytesMut::new();
        while let Some(part) = self.body.next().await {
            let part = part?;
            if whole.len() + part.len() > limit {
                return Err(Status::request_too_large(format!("limit is {limit}")));
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }
}

/// A body read part by part, only as fast as the consumer takes it.
#[async_trait]
pub trait RawBody: Send {
    /// Waits for the next part; `None` at the end.
    ///
    /// # Errors
    /// 503 when the connection broke.
    async fn next(&mut self) -> Option<Result<Bytes, Status>>;
}

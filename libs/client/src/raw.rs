//! Requests that are no verb on a resource: `/version`, `/healthz`, a pod's log.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use oarlock_meta::Status;
use oarlock_schema::Str;

/// The method of a raw request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Do.
    Post,
    /// Replace.
    Put,
    /// Change.
    Patch,
    /// Delete.
    Delete,
}

impl Method {
    /// The word.
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

/// A raw request.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// What to do.
    pub method: Method,
    /// Path and query, as `/api/v1/namespaces/default/pods/p/log?follow=true`.
    pub path: String,
    /// Headers beyond those of the identity, names in lower case.
    pub headers: Vec<(Str, Str)>,
    /// The body.
    pub body: Bytes,
    /// Budget until the answer begins; its body may take longer.
    pub timeout: Duration,
}

impl RawRequest {
    /// Reads `path`.
    #[must_use]
    pub fn get(path: impl Into<String>, timeout: Duration) -> Self {
        Self { method: Method::Get, path: path.into(), headers: Vec::new(), body: Bytes::new(), timeout }
    }
}

/// The answer to a raw request, whatever its code.
pub struct RawReply {
    /// The status code.
    pub code: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(Str, Str)>,
    /// The body.
    pub body: Box<dyn RawBody>,
}

impl RawReply {
    /// The first header of this (lower case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The whole body.
    ///
    /// # Errors
    /// 413 when it is longer than `limit` bytes, otherwise what [`RawBody::next`] says.
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

/// A body that comes in parts, as fast as they are taken.
#[async_trait]
pub trait RawBody: Send {
    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// 503 when the connection broke.
    async fn next(&mut self) -> Option<Result<Bytes, Status>>;
}

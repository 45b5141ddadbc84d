//! The HTTP transport: decodes requests into calls and encodes the answers.
//!
//! [`listener`] accepts TLS connections. [`service`] authenticates, impersonates and authorizes one request, and `routes` checks that a route exists
//! for it. [`body`] and [`options`] decode the request into a call. [`respond`] and [`stream`] encode the answer in the form that the client asked
//! for. [`plain`] answers paths that are not resources, and `snapshot` exports all objects.

pub mod accept;
pub(crate) mod audit_id;
mod backlog;
pub mod body;
mod coalesce;
mod deprecated;
mod initial;
mod kept_spans;
mod list_head;
pub mod listener;
pub mod options;
pub mod plain;
pub mod request_info;
pub mod respond;
mod routes;
pub mod service;
mod snapshot;
pub mod stream;
mod table_answers;
pub mod text;
mod trace;
mod unauthenticated;
mod unread;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// The reason why a response body was cut off. The stream or the connection is then aborted, so that no client takes a part for the whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The response body of the backend, which is passed on, was cut off.
    #[error(transparent)]
    Passed(#[from] hyper::Error),
    /// The rest of the body could not be produced.
    #[error("the answer broke off")]
    BrokenOff,
}

/// Returns a body whose bytes are all present.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

//! HTTP: bytes in, calls out, bytes back.
//!
//! [`listener`] accepts TLS connections; [`service`] takes one request through authentication, impersonation and authorization; `routes` says
//! whether it has a route; [`body`] and [`options`] make a call of it; [`respond`] and [`stream`] write the answer in the form the client
//! asked for; [`plain`] answers paths that are no resource, `snapshot` the one that is everything.

pub mod accept;
pub mod body;
mod coalesce;
mod deprecated;
mod initial;
pub mod listener;
mod newcomers;
pub mod options;
pub mod plain;
pub mod request_info;
pub mod respond;
mod routes;
pub mod service;
mod snapshot;
pub mod stream;
pub mod text;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of every answer.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body breaks off, and with it the stream or the connection: nobody takes a part for the whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The one it is passed on from did.
    #[error(transparent)]
    Passed(#[from] hyper::Error),
    /// There is no more of it.
    #[error("the answer broke off")]
    BrokenOff,
}

/// A body that is there as a whole.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

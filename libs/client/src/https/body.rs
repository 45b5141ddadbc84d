//! Reads the bodies of answers, whole or part by part.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use oarlock_meta::Status;
use oarlock_schema::Str;

use super::error::BodyError;
use super::pool::Stream;
use crate::raw::{RawBody, RawReply};

/// Longest body of an answer to a call, in bytes; longer lists must be read in pages.
const MAX_BODY_BYTES: usize = 1 << 30;

/// Reads the whole body. A single frame is returned without a copy, several are joined.
pub(super) async fn whole(mut body: Incoming) -> Result<Bytes, BodyError> {
    let Some(first) = part(&mut body).await? else { return Ok(Bytes::new()) };
    let Some(second) = part(&mut body).await? else { return Ok(first) };
    let hint = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(MAX_BODY_BYTES);
    let mut whole = BytesMut::with_capacity(first.len() + second.len() + hint);
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    while let Some(next) = part(&mut body).await? {
        if whole.len() + next.len() > MAX_BODY_BYTES {
            return Err(BodyError::TooLong);
        }
        whole.extend_from_slice(&next);
    }
    Ok(whole.freeze())
}

/// Reads the next data of a body. Cancel safe.
pub(super) async fn part(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        // Frames other than data are trailers.
        if let Ok(data) = frame?.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
}

/// Body of a raw answer; keeps the stream counted while it is read.
struct Parts {
    body: Incoming,
    _stream: Stream,
}

#[async_trait]
impl RawBody for Parts {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        let next = part(&mut self.body).await.map_err(|why| Status::service_unavailable(why.to_string()));
        next.transpose()
    }
}

pub(super) fn raw(response: http::Response<Incoming>, stream: Stream) -> RawReply {
    let (head, body) = response.into_parts();
    let text = |value: &http::HeaderValue| Str::from(value.to_str().unwrap_or_default());
    RawReply {
        code: head.status.as_u16(),
        headers: head.headers.iter().map(|(name, value)| (Str::from(name.as_str()), text(value))).collect(),
        body: Box::new(Parts { body, _stream: stream }),
    }
}

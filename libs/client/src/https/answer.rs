//! Converts HTTP answers to replies.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::{Str, TypeRef};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::attempt::Refusal;
use crate::object::{List, Object};
use crate::request::{Call, Reply, Request};

/// Bytes shown of a failed answer that is no Status.
const MAX_SHOWN_BYTES: usize = 1024;

/// `metadata` of a list.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMeta<'a> {
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default, rename = "continue")]
    token: Cow<'a, str>,
    #[serde(default)]
    remaining_item_count: Option<u64>,
}

/// A list with undecoded items.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    metadata: ListMeta<'a>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// `kind` of an answer.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

/// Reads the header `Retry-After`, in seconds.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// Returns a refusal when the server says that it did not execute the request and may do so later.
pub(super) fn refusal<B>(response: &Response<B>) -> Option<Refusal> {
    let code = response.status().as_u16();
    let after = retry_after(response.headers()).map(|seconds| Duration::from_secs(seconds.into()));
    matches!(code, 429 | 503).then_some(Refusal { code, after, elsewhere: false })
}

/// Decodes a successful answer.
pub(super) fn reply(request: &Request, code: StatusCode, bytes: Bytes) -> Result<Reply, Status> {
    match &request.call {
        Call::List(_) => list(request.resource.ty, &bytes).map(Reply::List),
        Call::DeleteCollection(..) if kind(&bytes)? != "Status" => list(request.resource.ty, &bytes).map(Reply::List),
        _ if kind(&bytes)? == "Status" => status(&bytes).map(Reply::Status),
        _ => {
            let object = Object::from_json(ty(request), bytes)?;
            Ok(Reply::Object { object, created: code == StatusCode::CREATED })
        }
    }
}

fn ty(request: &Request) -> TypeRef {
    let subresource = request.resource.subresource(request.subresource);
    subresource.and_then(|subresource| subresource.ty).unwrap_or(request.resource.ty)
}

fn kind(bytes: &Bytes) -> Result<Cow<'_, str>, Status> {
    serde_json::from_slice::<Kind<'_>>(bytes).map(|kind| kind.kind).map_err(malformed)
}

fn status(bytes: &Bytes) -> Result<Status, Status> {
    serde_json::from_slice(bytes).map_err(malformed)
}

fn malformed(error: serde_json::Error) -> Status {
    Status::internal_error(format!("the server's answer cannot be read: {error}"))
}

/// Decodes a list; the items share its bytes.
fn list(ty: TypeRef, bytes: &Bytes) -> Result<List, Status> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(malformed)?;
    if !envelope.kind.ends_with("List") {
        return Err(Status::internal_error(format!("the server answered a list with a {}", envelope.kind)));
    }
    let item = |raw: &RawValue| Object::from_json(ty, bytes.slice_ref(raw.get().as_bytes()));
    Ok(List {
        revision: envelope.metadata.resource_version.parse().unwrap_or_default(),
        items: envelope.items.unwrap_or_default().into_iter().map(item).collect::<Result<_, _>>()?,
        continue_token: Str::from(envelope.metadata.token),
        remaining: envelope.metadata.remaining_item_count,
    })
}

/// Returns the Status of a failed answer, built from the code where the body contains none.
pub(super) fn failure(
    code: StatusCode,
    bytes: &Bytes,
    retry_after: Option<u32>,
    (method, resource, name): (&str, &GroupResource, &str),
) -> Status {
    let code = code.as_u16();
    let Ok(mut status) = serde_json::from_slice::<Status>(bytes) else {
        let shown = String::from_utf8_lossy(bytes.get(..MAX_SHOWN_BYTES).unwrap_or(bytes));
        return Status::generic_server_response(
            code,
            method,
            resource,
            name,
            shown.trim(),
            retry_after.unwrap_or(0),
            true,
        );
    };
    if status.code == 0 {
        status.code = code;
    }
    if let Some(seconds) = retry_after.filter(|_| status.retry_after().is_none()) {
        status.details_mut().retry_after_seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    }
    status
}

#[cfg(test)]
mod tests;

//! Request bodies: media type, size limit, decoding with upstream's errors.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use oarlock_client::FieldValidation;
use oarlock_codec::negotiate::{self, Format};
use oarlock_codec::{DecodeError, Mode, body, handled_as, json, protobuf, strict_error, tree, yaml};
use oarlock_meta::{GroupVersionKind, Status};
use oarlock_runtime::{Instant, clock};
use oarlock_schema::{Gvk, Obj, TypeRef};

use crate::caller::Caller;
use crate::large;

/// Reads a body of at most `limit` bytes. A client that sends its body slowly, or not at all, would hold its place among the requests in flight for ever, so
/// the body must be complete by `deadline`.
///
/// # Errors
/// 413 when it is longer, 400 when the client breaks off, 504 when it is not there in time.
pub async fn read(body: Incoming, limit: usize, deadline: Instant) -> Result<Bytes, Status> {
    let read = clock::timeout_at(deadline, Limited::new(body, limit).collect()).await;
    match read.map_err(|_| large::late())? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::request_too_large(format!("limit is {limit}"))),
        Err(error) => Err(Status::bad_request(format!("unable to read request body: {error}"))),
    }
}

/// The encoding of a body; none counts as JSON.
///
/// # Errors
/// 415 for anything else than JSON, YAML and protobuf.
pub fn media(headers: &HeaderMap) -> Result<Format, Status> {
    negotiate::input(headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or(""))
}

/// Decodes an object of the expected type.
///
/// # Errors
/// 400 for what does not decode, is of another kind or version, or has unknown or duplicate fields under strict validation.
pub fn object(
    format: Format,
    bytes: &Bytes,
    ty: TypeRef,
    expected: Gvk,
    validation: FieldValidation,
    caller: &Caller,
) -> Result<Obj, Status> {
    let mode = if validation == FieldValidation::Ignore { Mode::Lenient } else { Mode::Strict };
    let decoded = body::decode(format, bytes, ty, mode)?;
    let mut obj = decoded.value;
    if let Some(text) = strict_error(&decoded.findings) {
        match validation {
            FieldValidation::Strict => return Err(handled_as(expected.kind, expected.version, expected.kind, text)),
            FieldValidation::Ignore => {}
            _ => decoded.findings.iter().for_each(|finding| caller.warn(finding.to_string())),
        }
    }
    obj.set_gvk(ty.gvk.unwrap_or(expected));
    Ok(obj)
}

/// Decodes DeleteOptions, which arrive with any apiVersion.
///
/// # Errors
/// 400 for what does not decode and for another kind.
pub fn delete_options(format: Format, bytes: &Bytes, ty: TypeRef) -> Result<Obj, Status> {
    let refuse = |error: DecodeError| Status::bad_request(error.to_string());
    let (peeked, decoded) = match format {
        Format::Json => (json::peek_gvk(bytes), json::decode(bytes, ty, Mode::Lenient)),
        Format::Yaml => {
            let generic = yaml::decode_value(bytes, Mode::Lenient).map_err(refuse)?.value;
            (json::peek_value(&generic), tree::type_value(&generic, ty, Mode::Lenient))
        }
        Format::Protobuf => (protobuf::peek_gvk(bytes), protobuf::decode(bytes, ty)),
    };
    let options = GroupVersionKind::new("", "v1", "DeleteOptions");
    let stated = peeked.map_err(refuse)?.or(&options);
    if stated.kind != options.kind {
        return Err(Status::bad_request(body::no_kind(&stated)));
    }
    decoded.map(|decoded| decoded.value).map_err(refuse)
}

//! Encodes replies and failures in the form that the client asked for.

mod payload;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Body as _;
use oarlock_client::{List, Object, Reply};
use oarlock_codec::negotiate::{self, Endpoint};
use oarlock_codec::{Mode, json, partial, protobuf, yaml};
use oarlock_meta::Status;
use oarlock_schema::{Obj, Resource, Struct, Value, type_named};

use super::accept::{Format, Representation, Transform, Wanted};
use super::list_head::head;
use super::unread::AnswerBytes;
use super::{Body, table_answers};
use crate::target::Target;
use payload::Payload;

/// Answers with a Status in the encoding that the client asked for. A client that accepts no such encoding (only Tables, for example) gets readable
/// JSON.
#[must_use]
pub fn status(status: &Status, accept: Option<&str>) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (format, bytes) = match negotiate::output(accept.unwrap_or(""), Endpoint::PLAIN) {
        Ok(form) => (form.format, status_bytes(status, form.format)),
        Err(_) => (Format::Json, json::pretty(&status.to_json()).into()),
    };
    let mut response = answer(code, format, payload::whole(bytes, false));
    if let Some(seconds) = status.retry_after().filter(|s| *s > 0)
        && let Ok(value) = HeaderValue::from_str(&seconds.to_string())
    {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

/// Encodes a Status, followed by a line break in JSON.
fn status_bytes(status: &Status, format: Format) -> Bytes {
    let mut body = status.to_json();
    let obj = match format {
        Format::Json => None,
        _ => type_named("meta/v1.Status").and_then(|ty| json::decode(&body, ty, Mode::Lenient).ok()),
    };
    match obj {
        Some(obj) => encode(&obj.value, format),
        None => {
            body.push(b'\n');
            body.into()
        }
    }
}

/// Whether a reply is expensive to encode: a large list whose objects must be decoded one by one. A JSON list is joined from stored bytes.
pub(super) fn is_large(reply: &Reply, wanted: &Wanted) -> bool {
    const BYTES: usize = 1 << 20;
    let Reply::List(list) = reply else { return false };
    let asis = wanted.form.format == Format::Json && wanted.form.transform == Transform::None && !wanted.pretty;
    !asis && list.items.iter().map(|object| object.bytes.len()).sum::<usize>() > BYTES
}

/// Encodes a reply.
///
/// # Errors
/// 406 when the requested form is not available, 500 when stored bytes do not decode.
pub fn reply(reply: Reply, target: &Target<'_>, wanted: &Wanted) -> Result<Response<Body>, Status> {
    let code = match &reply {
        Reply::Object { created: true, .. } => StatusCode::CREATED,
        Reply::Status(status) => StatusCode::from_u16(status.code).unwrap_or(StatusCode::OK),
        _ => StatusCode::OK,
    };
    let (format, version) = (wanted.form.format, wanted.form.version);
    let bytes = match (&reply, wanted.form.transform) {
        (Reply::Status(status), _) => status_bytes(status, format),
        (Reply::Object { object, .. }, Transform::None) => object_bytes(object, format)?,
        (Reply::Object { object, .. }, Transform::Metadata) => metadata(object, wanted.form)?,
        (Reply::List(list), Transform::None) if format == Format::Json && !wanted.pretty => {
            return Ok(answer(code, format, json_list(list, target.resource(), wanted.gzip)));
        }
        (Reply::List(list), Transform::None) => list_bytes(list, target.resource(), format)?,
        (Reply::List(list), Transform::MetadataList) => metadata_list(list, wanted.form)?,
        (Reply::List(_), Transform::Metadata) => {
            return Err(mismatch("PartialObjectMetadata, but the requested object is a list", target, "List"));
        }
        (Reply::Object { .. }, Transform::MetadataList) => {
            return Err(mismatch("PartialObjectMetadataList, but the requested object is not a list", target, ""));
        }
        (reply, Transform::Table) => {
            let table = table_answers::render(reply, target, version, wanted.include)?;
            if format == Format::Yaml { yaml_of(&table)? } else { table }
        }
    };
    let bytes = match (format, wanted.pretty) {
        // Readable JSON ends without a line break.
        (Format::Json, true) => Bytes::from(json::pretty(bytes.trim_ascii_end())),
        (Format::Json, false) => line(bytes),
        _ => bytes,
    };
    Ok(answer(code, format, payload::whole(bytes, wanted.gzip)))
}

fn answer(code: StatusCode, format: Format, payload: Payload) -> Response<Body> {
    let states_its_size = payload.body.size_hint().exact() == Some(payload.size as u64);
    let mut response = Response::new(payload.body);
    *response.status_mut() = code;
    if !states_its_size {
        response.extensions_mut().insert(AnswerBytes(payload.size));
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if payload.gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// Returns upstream's 406 for a request of one object's metadata where the answer is a list, or the reverse. The text names upstream's internal Go
/// type.
fn mismatch(what: &str, target: &Target<'_>, suffix: &str) -> Status {
    let resource = target.resource();
    let package = match resource.group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    let text = format!("you requested {what} (*{package}.{}{suffix})", resource.kind);
    let mut status = Status::not_acceptable(&[]);
    status.message = text;
    status
}

/// Encodes one object.
///
/// # Errors
/// 500 when its bytes do not decode.
pub fn object_bytes(object: &Object, format: Format) -> Result<Bytes, Status> {
    Ok(match format {
        Format::Json => object.bytes.clone(),
        _ => encode(&object.obj()?, format),
    })
}

/// Encodes any object; JSON without a line break.
#[must_use]
pub fn encode(obj: &Obj, format: Format) -> Bytes {
    Bytes::from(match format {
        Format::Json => json::encode(obj).bytes,
        Format::Yaml => yaml::encode(obj),
        Format::Protobuf => protobuf::encode(obj),
    })
}

/// Encodes an object's metadata; JSON without a line break.
///
/// # Errors
/// 500 when the bytes are not an object.
pub fn metadata(object: &Object, form: Representation) -> Result<Bytes, Status> {
    if form.format == Format::Json {
        return partial::metadata_json(&object.bytes, form.version).map(Bytes::from).ok_or_else(no_object);
    }
    Ok(encode(&partial::metadata(&object.obj()?, form.version).ok_or_else(no_object)?, form.format))
}

fn no_object() -> Status {
    Status::internal_error("stored bytes are no object")
}

fn line(bytes: Bytes) -> Bytes {
    let mut line = Vec::with_capacity(bytes.len() + 1);
    line.extend_from_slice(&bytes);
    line.push(b'\n');
    line.into()
}

fn yaml_of(json: &[u8]) -> Result<Bytes, Status> {
    let decoded = json::decode_value(json, Mode::Lenient).map_err(|e| Status::internal_error(e.to_string()))?;
    Ok(yaml::encode_value(&decoded.value).into())
}

fn list_bytes(list: &List, resource: &Resource, format: Format) -> Result<Bytes, Status> {
    let ty = resource.list_ty.ok_or_else(|| Status::internal_error("the resource has no list type"))?;
    let items = list.items.iter().map(|o| o.obj().map(untyped)).collect::<Result<Vec<Struct>, Status>>()?;
    Ok(encode(&list_obj(Obj::new(ty), list, items), format))
}

fn metadata_list(list: &List, form: Representation) -> Result<Bytes, Status> {
    if form.format == Format::Json {
        let mut out = Vec::with_capacity(list.items.len() * 512 + 256);
        out.extend_from_slice(
            head("PartialObjectMetadataList", &format!("meta.k8s.io/{}", form.version), list).as_bytes(),
        );
        out.extend_from_slice(b",\"items\":[");
        for (i, object) in list.items.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&metadata(object, form)?);
        }
        out.extend_from_slice(b"]}");
        return Ok(out.into());
    }
    let ty = type_named("meta/v1.PartialObjectMetadataList").ok_or_else(no_object)?;
    let mut obj = Obj::new(ty);
    obj.set_name("apiVersion", format!("meta.k8s.io/{}", form.version));
    let item = |o: &Object| partial::metadata(&o.obj()?, form.version).map(Obj::into_root).ok_or_else(no_object);
    let items = list.items.iter().map(item).collect::<Result<Vec<Struct>, Status>>()?;
    Ok(encode(&list_obj(obj, list, items), form.format))
}

fn list_obj(mut obj: Obj, list: &List, items: Vec<Struct>) -> Obj {
    obj.set_at(&["metadata", "resourceVersion"], list.revision.to_string());
    if !list.continue_token.is_empty() {
        obj.set_at(&["metadata", "continue"], list.continue_token.as_str());
    }
    if let Some(remaining) = list.remaining.and_then(|r| i64::try_from(r).ok()) {
        obj.set_at(&["metadata", "remainingItemCount"], remaining);
    }
    obj.set_name("items", items.into_iter().collect::<Value>());
    obj
}

/// Removes kind and apiVersion from an item of a typed list, as Go does.
fn untyped(obj: Obj) -> Struct {
    let mut root = obj.into_root();
    root.remove_name("kind");
    root.remove_name("apiVersion");
    root
}

/// Builds a JSON list as a body of the items' stored bytes; nothing is decoded, and the whole list is never in memory.
fn json_list(list: &List, resource: &Resource, gzip: bool) -> Payload {
    let version = resource.group_version();
    let prefix = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{version}\",", resource.kind);
    let head = head(&format!("{}List", resource.kind), &version, list) + ",\"items\":[";
    let size = head.len() + 3 + list.items.iter().map(|o| o.bytes.len() + 1).sum::<usize>();
    let items: Vec<Bytes> = list.items.iter().map(|o| o.bytes.clone()).collect();
    let items = items.into_iter().enumerate().flat_map(move |(i, bytes)| {
        let (open, rest) = match (bytes.starts_with(prefix.as_bytes()), i) {
            (true, 0) => ("{", bytes.slice(prefix.len()..)),
            (true, _) => (",{", bytes.slice(prefix.len()..)),
            (false, 0) => ("", bytes),
            (false, _) => (",", bytes),
        };
        [Bytes::from_static(open.as_bytes()), rest]
    });
    payload::of(std::iter::once(Bytes::from(head)).chain(items).chain([Bytes::from_static(b"]}\n")]), size, gzip)
}

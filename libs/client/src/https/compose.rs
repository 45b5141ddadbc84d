//! Converts calls to HTTP requests: paths, queries, headers, bodies.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use oarlock_meta::Status;
use oarlock_schema::Resource;
use serde::Serialize;

use crate::fence;
use crate::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::raw::RawRequest;
use crate::request::{Call, Request};
use crate::wire;

const JSON: &str = "application/json";

/// A request without server address and identity.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) method: Method,
    /// Path and query.
    pub(super) uri: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

pub(super) fn call(request: &Request) -> Result<Composed, Status> {
    let mut query = Query::default();
    let (method, media, body) = match &request.call {
        Call::Get(options) => {
            query.maybe("resourceVersion", options.resource_version);
            (Method::GET, None, super::empty())
        }
        Call::List(options) => {
            query.list(options);
            (Method::GET, None, super::empty())
        }
        Call::Create(object, options) => {
            query.write(options);
            (Method::POST, Some(JSON), wire::encode(object))
        }
        Call::Update(object, options) => {
            query.write(options);
            (Method::PUT, Some(JSON), wire::encode(object))
        }
        Call::Patch(format, patch, options) => {
            query.write(options);
            if options.force {
                query.pair("force", "true");
            }
            (Method::PATCH, Some(format.media_type()), patch.clone())
        }
        Call::Delete(options) => (Method::DELETE, Some(JSON), delete_body(options)?),
        Call::DeleteCollection(which, options) => {
            query.list(which);
            (Method::DELETE, Some(JSON), delete_body(options)?)
        }
    };
    let seconds = request.timeout.as_secs_f64().ceil();
    query.pair("timeout", format_args!("{seconds}s"));
    let mut uri = path(request.resource, &request.namespace, &request.name, request.subresource);
    query.append_to(&mut uri);
    let mut headers = headers(media);
    if let Some(fence) = &request.fence {
        let value = HeaderValue::try_from(fence.to_string()).map_err(Status::internal_error)?;
        headers.push((HeaderName::from_static(fence::HEADER), value));
    }
    Ok(Composed { method, uri, headers, body })
}

pub(super) fn watch(resource: &Resource, namespace: &str, options: &ListOptions) -> Result<Composed, Status> {
    let mut query = Query::default();
    query.pair("watch", "true");
    query.list(options);
    if options.allow_bookmarks {
        query.pair("allowWatchBookmarks", "true");
    }
    query.maybe("sendInitialEvents", options.send_initial_events);
    query.maybe("timeoutSeconds", options.timeout.map(|timeout| timeout.as_secs().max(1)));
    let mut uri = path(resource, namespace, "", "");
    query.append_to(&mut uri);
    Ok(Composed { method: Method::GET, uri, headers: headers(None), body: super::empty() })
}

pub(super) fn raw(request: RawRequest) -> Result<Composed, Status> {
    let mut headers = Vec::with_capacity(request.headers.len());
    for (name, value) in &request.headers {
        let name = HeaderName::try_from(name.as_str());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) else {
            return Err(Status::bad_request("a header of the raw request is malformed"));
        };
        headers.push((name, value));
    }
    let method = super::http_method(request.method);
    Ok(Composed { method, uri: request.path, headers, body: request.body })
}

fn headers(media: Option<&'static str>) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = vec![(http::header::ACCEPT, HeaderValue::from_static(JSON))];
    headers.extend(media.map(|media| (http::header::CONTENT_TYPE, HeaderValue::from_static(media))));
    headers
}

fn path(resource: &Resource, namespace: &str, name: &str, subresource: &str) -> String {
    let mut path = String::with_capacity(96);
    if resource.group.is_empty() {
        path.push_str("/api/");
    } else {
        path.push_str("/apis/");
        path.push_str(resource.group);
        path.push('/');
    }
    path.push_str(resource.version);
    if resource.namespaced && !namespace.is_empty() {
        path.push_str("/namespaces/");
        encode(&mut path, namespace, true);
    }
    path.push('/');
    path.push_str(resource.plural);
    for part in [name, subresource].into_iter().filter(|part| !part.is_empty()) {
        path.push('/');
        encode(&mut path, part, true);
    }
    path
}

/// Percent-encodes a path segment or a query value (RFC 3986; in queries also what forms reserve).
fn encode(out: &mut String, text: &str, path: bool) {
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || (path && matches!(byte, b':' | b'@' | b'!' | b'$' | b'*' | b',' | b'(' | b')'));
        if plain {
            out.push(byte.into());
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Builder of a query string.
#[derive(Default)]
struct Query(String);

impl Query {
    fn pair(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        encode(&mut self.0, &value.to_string(), false);
    }

    fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.pair(name, value);
        }
    }

    fn list(&mut self, options: &ListOptions) {
        if !options.label_selector.is_empty() {
            self.pair("labelSelector", &options.label_selector);
        }
        if !options.field_selector.is_empty() {
            self.pair("fieldSelector", &options.field_selector);
        }
        self.maybe("resourceVersion", options.resource_version);
        self.maybe("resourceVersionMatch", options.version_match.map(|how| how.as_str()));
        self.maybe("limit", Some(options.limit).filter(|limit| *limit > 0));
        self.maybe("continue", Some(&options.continue_token).filter(|token| !token.is_empty()));
    }

    fn write(&mut self, options: &WriteOptions) {
        if options.dry_run {
            self.pair("dryRun", "All");
        }
        self.maybe("fieldManager", Some(&options.field_manager).filter(|manager| !manager.is_empty()));
        self.maybe("fieldValidation", Some(options.field_validation.as_str()).filter(|word| !word.is_empty()));
    }

    fn append_to(&self, uri: &mut String) {
        uri.push_str(&self.0);
    }
}

/// `DeleteOptions` as a request body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteBody<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
}

/// `DeleteOptions.preconditions`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

fn delete_body(options: &DeleteOptions) -> Result<Bytes, Status> {
    let some = options.uid.is_some() || options.resource_version.is_some();
    let body = DeleteBody {
        kind: "DeleteOptions",
        api_version: "v1",
        grace_period_seconds: options.grace_period_seconds,
        preconditions: some.then(|| Preconditions {
            uid: options.uid.as_deref(),
            resource_version: options.resource_version.map(|revision| revision.to_string()),
        }),
        propagation_policy: options.propagation.map(|propagation| propagation.as_str()),
        dry_run: options.dry_run.then_some(["All"]),
    };
    serde_json::to_vec(&body).map(Bytes::from).map_err(Status::internal_error)
}

#[cfg(test)]
mod tests;

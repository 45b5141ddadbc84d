//! One request: who, what, may they; then a call or a plain answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use oarlock_auth::{Attributes, PeerCertificates, UserInfo, impersonation};
use oarlock_client::{Call, Fence, PatchType, fence};
use oarlock_meta::{FieldSelector, GoDuration, Status};
use oarlock_runtime::clock;
use oarlock_schema::{Str, resource};

use super::accept::Wanted;
use super::options::{self, Query};
use super::request_info::{self, RequestInfo, Slashes};
use super::{Body, body, deprecated, plain, respond, routes, snapshot, stream};
use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Serves one request; failures become Status answers.
pub async fn serve(server: &Server, peer: Option<&PeerCertificates>, mut request: Request<Incoming>) -> Response<Body> {
    let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok()).map(str::to_owned);
    if server.state().is_refusing() && !is_exempt(&request) {
        return going();
    }
    let uri = request.uri();
    let read = request_info::parse(request.method(), uri.path(), uri.query().unwrap_or(""))
        .map_err(|request_info::PathError::Encoding| Status::bad_request("the path is not valid percent-encoding"))
        .and_then(|info| Ok((time_limit(server, &info, uri.query().unwrap_or(""))?, info)));
    let (limit, info) = match read {
        Ok(read) => read,
        Err(status) => return respond::status(&status, accept.as_deref()),
    };
    // Only who waits for them needs them counted.
    let ends = info.verb != "watch" && !crate::streaming::is_streaming(&info.subresource) && !is_exempt(&request);
    let _counted = (ends && server.config().termination.send_retry_after).then(|| server.state().request());
    let (user, warning) = match authenticate(server, peer, request.headers()) {
        Ok(known) => known,
        Err(status) => return respond::status(&status, accept.as_deref()),
    };
    let fence = match claim(request.headers()) {
        Ok(fence) => fence,
        Err(status) => return respond::status(&status, accept.as_deref()),
    };
    // Whoever is behind a proxy must not see these.
    server.authenticators().clear(request.headers_mut());
    impersonation::clear(request.headers_mut());
    let agent = request.headers().get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
    let mut caller = Caller::new(user, Str::new(agent), clock::after(limit));
    caller.fence = fence;
    warning.into_iter().for_each(|text| caller.warn(text));
    let started = clock::now();
    let method = request.method().clone();
    let result = handle(server, &caller, &info, request, accept.as_deref()).await;
    let mut response = result.unwrap_or_else(|status| respond::status(&status, accept.as_deref()));
    for text in caller.take_warnings() {
        if let Ok(value) = http::HeaderValue::from_str(&format!("299 - {}", oarlock_meta::quote::quote(&text))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    crate::metrics::request(&info, &method, response.status(), started.elapsed());
    response
}

/// What a server that ends still answers: those who look at it, and its own kind (upstream: `isRequestExemptFromRetryAfter`).
fn is_exempt(request: &Request<Incoming>) -> bool {
    let path = request.uri().path();
    let agent = request.headers().get(header::USER_AGENT).map_or(&b""[..], |agent| agent.as_bytes());
    ["/readyz", "/livez", "/healthz", "/metrics"].iter().any(|exempt| path.starts_with(exempt))
        || agent.starts_with(b"kube-apiserver/")
}

/// Upstream's answer of a server that ends, in its words.
fn going() -> Response<Body> {
    let words = "The apiserver is shutting down, please try again later.\n";
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, "text/plain; charset=utf-8", words);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("5"));
    headers.insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

type Known = (Arc<UserInfo>, Option<String>);

fn authenticate(server: &Server, peer: Option<&PeerCertificates>, headers: &HeaderMap) -> Result<Known, Status> {
    let now = clock::wall().as_second();
    let known = server.authenticators().authenticate(peer, headers, now).map_err(|refused| {
        tracing::debug!(reasons = ?refused.reasons, "unable to authenticate the request");
        Status::unauthorized("Unauthorized")
    })?;
    let Some(wish) = impersonation::requested(headers)? else {
        return Ok((known.user, known.warning.map(str::to_owned)));
    };
    for check in &wish.checks {
        server.authorize(&check.attributes(&known.user))?;
    }
    Ok((Arc::new(wish.user), known.warning.map(str::to_owned)))
}

/// The claim under which the request writes.
fn claim(headers: &HeaderMap) -> Result<Option<Fence>, Status> {
    let Some(value) = headers.get(fence::HEADER) else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok()).ok_or(fence::Malformed);
    parsed.map(Some).map_err(|why| Status::bad_request(format!("invalid header {}: {why}", fence::HEADER)))
}

/// How long the request may take: what it asks for with `timeout`, but no longer than the server allows. Watches and streams take as long as
/// they take.
fn time_limit(server: &Server, info: &RequestInfo, query: &str) -> Result<Duration, Status> {
    let most = server.config().request_timeout;
    if !query.contains("timeout=") || info.verb == "watch" || crate::streaming::is_streaming(&info.subresource) {
        return Ok(most);
    }
    let query = Query::new(query);
    let asked = match query.get("timeout") {
        "" => return Ok(most),
        text => GoDuration::parse(text)
            .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?,
    };
    Ok(asked.to_std().filter(|asked| !asked.is_zero()).map_or(most, |asked| asked.min(most)))
}

async fn handle(
    server: &Server,
    caller: &Caller,
    info: &RequestInfo,
    request: Request<Incoming>,
    accept: Option<&str>,
) -> Result<Response<Body>, Status> {
    let query = request.uri().query().unwrap_or("").to_owned();
    if info.resource_request {
        return on_resource(server, caller, info, request, &query).await;
    }
    server.authorize(&Attributes::path(&caller.user, info.verb, &info.path))?;
    if info.path == snapshot::PATH {
        return snapshot::answer(server, caller, request.method()).await;
    }
    plain::answer(server, &info.path, &query, &request, accept)
}

async fn on_resource(
    server: &Server,
    caller: &Caller,
    info: &RequestInfo,
    request: Request<Incoming>,
    query: &str,
) -> Result<Response<Body>, Status> {
    authorize(server, caller, info, query)?;
    if info.slashes == Slashes::Leading {
        return Ok(plain::page_not_found());
    }
    let Some(row) = resource(&info.group, &info.version, &info.resource) else {
        return plain::not_served(&info.group);
    };
    routes::check(request.method(), request.headers(), row, info)?;
    let query = Query::new(query);
    let namespace = if row.namespaced { info.namespace.as_str() } else { "" };
    let collection = matches!(info.verb, "list" | "watch" | "deletecollection");
    let name = if collection { "" } else { info.name.as_str() };
    let target = Target::new(row, &info.subresource, namespace, name);
    deprecated::warn(caller, row);
    if crate::streaming::is_streaming(&info.subresource) {
        // It is several times the size of everything else, and every request would have room for it.
        return Box::pin(crate::streaming::serve(server, caller, &target, info, &query, request)).await;
    }
    if info.verb == "watch" {
        let wanted = Wanted::new(request.headers(), &query, row, &info.subresource, true)?;
        let options = options::narrow(options::list(&query, true)?, &info.name)?;
        let watch = crate::verbs::watch::watch(server, caller, &target, &options).await?;
        return Ok(stream::watch(watch, &target, wanted));
    }
    let wanted = Wanted::new(request.headers(), &query, row, &info.subresource, false)?;
    let call = read_call(server, caller, info, &target, request, &query).await?;
    let reply = server.execute(caller, &target, call).await?;
    respond::reply(reply, &target, &wanted)
}

fn authorize(server: &Server, caller: &Caller, info: &RequestInfo, query: &str) -> Result<(), Status> {
    // A selector that cannot be read narrows nothing; what is wrong with it is said to those who may ask. Upstream takes none from the old
    // watch paths.
    let narrows = matches!(info.verb, "list" | "watch" | "deletecollection") && !info.watch_path;
    let fields = narrows.then(|| FieldSelector::parse(Query::new(query).get("fieldSelector")).ok()).flatten();
    server.authorize(&Attributes {
        version: &info.version,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: &info.name,
        fields: fields.as_ref(),
        ..Attributes::resource(&caller.user, info.verb, &info.group, &info.resource)
    })
}

/// Reads body and options of a request into a call.
async fn read_call(
    server: &Server,
    caller: &Caller,
    info: &RequestInfo,
    target: &Target<'_>,
    request: Request<Incoming>,
    query: &Query,
) -> Result<Call, Status> {
    let (parts, incoming) = request.into_parts();
    let limit = server.config().max_body;
    Ok(match info.verb {
        "get" => Call::Get(options::get(query)?),
        "list" => Call::List(options::list(query, false)?),
        "create" | "update" => {
            let create = info.verb == "create";
            let options = options::write(query, if create { "CreateOptions" } else { "UpdateOptions" }, false)?;
            let media = body::media(&parts.headers)?;
            let bytes = body::read(incoming, limit).await?;
            let (ty, gvk) = body_type(target)?;
            let mut obj = body::object(media, &bytes, ty, gvk, options.field_validation, caller)?;
            if create
                && !target.subresource.is_empty()
                && obj.name().is_empty()
                && let Some(mut meta) = obj.meta_mut()
            {
                meta.set_name(target.name);
            }
            if create { Call::Create(obj, options) } else { Call::Update(obj, options) }
        }
        "patch" => {
            let patch_type = patch_type(&parts.headers);
            let options = options::write(query, "PatchOptions", patch_type == PatchType::Apply)?;
            Call::Patch(patch_type, body::read(incoming, limit).await?, options)
        }
        "delete" => Call::Delete(delete_options(&parts, incoming, limit, query).await?),
        "deletecollection" => {
            let list = options::list(query, false)?;
            Call::DeleteCollection(list, delete_options(&parts, incoming, limit, query).await?)
        }
        _ => return Err(Status::method_not_supported(&target.resource().group_resource(), parts.method.as_str())),
    })
}

async fn delete_options(
    parts: &http::request::Parts,
    incoming: Incoming,
    limit: usize,
    query: &Query,
) -> Result<oarlock_client::DeleteOptions, Status> {
    let bytes: Bytes = body::read(incoming, limit).await?;
    if bytes.is_empty() {
        return options::delete(query, None);
    }
    let ty = oarlock_schema::type_named("meta/v1.DeleteOptions")
        .ok_or_else(|| Status::internal_error("no DeleteOptions type"))?;
    let media = body::media(&parts.headers)?;
    let obj = body::delete_options(media, &bytes, ty)?;
    options::delete(query, Some(&obj))
}

fn body_type(target: &Target<'_>) -> Result<(oarlock_schema::TypeRef, oarlock_schema::Gvk), Status> {
    let row = target.resource();
    match row.subresource(target.subresource) {
        None => Ok((row.ty, row.gvk())),
        Some(sub) => {
            let ty = sub.ty.ok_or_else(|| Status::internal_error("the subresource has no body"))?;
            Ok((ty, ty.gvk.unwrap_or(sub.gvk)))
        }
    }
}

/// The type of a patch that has a route.
fn patch_type(headers: &HeaderMap) -> PatchType {
    let text = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    match text.split(';').next().unwrap_or("").trim() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/apply-patch+yaml" => PatchType::Apply,
        _ => PatchType::Strategic,
    }
}

/// A reply of a raw path, as HTTP.
#[must_use]
pub fn text(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(super::full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

//! Serves one HTTP request: authenticates and authorizes the client, then executes a call or answers a path that is not a resource.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use oarlock_auth::user::ANONYMOUS;
use oarlock_auth::{Attributes, PeerCertificates, UserInfo, impersonation};
use oarlock_client::{Call, Fence, GetOptions, ListOptions, PatchType, WriteOptions, fence};
use oarlock_codec::negotiate::Format;
use oarlock_meta::{FieldSelector, GoDuration, Status};
use oarlock_runtime::clock;
use oarlock_schema::{Str, resource};

use super::accept::Wanted;
use super::audit_id::AuditId;
use super::initial::Initial;
use super::options::{self, Query};
use super::request_info::{self, RequestInfo, Slashes};
use super::trace::RequestTrace;
use super::unauthenticated::UnauthenticatedConnection;
use super::unread;
use super::unread::body::AnswerBody;
use super::unread::connection::ConnectionAnswers;
use super::{Body, body, deprecated, kept_spans, plain, respond, routes, snapshot, stream, text};
use crate::call::Dispatch;
use crate::caller::Caller;
use crate::metrics::{self, Answering, OpenWatch, RequestLabels};
use crate::server::Server;
use crate::streaming::Remote;
use crate::target::Target;
use crate::{inflight, large};

/// Facts about a connection that all its requests share.
#[derive(Debug)]
pub(super) struct Connection {
    /// The certificates of the client.
    pub(super) peer: Option<PeerCertificates>,
    /// The client's address.
    pub(super) remote: Remote,
    /// Whether a request of the connection was authenticated.
    pub(super) unauthenticated: UnauthenticatedConnection,
    /// The answers that the client has not read.
    pub(super) answers: ConnectionAnswers,
}

/// A request in two parts: the head is used by all that serve the request, so the body alone is handed on.
struct Received<'a> {
    head: &'a mut Parts,
    body: Incoming,
}

/// Serves one request in a span of its own; failures become Status answers. Every answer carries the request's audit ID.
pub(super) async fn serve(
    server: &Server,
    connection: &Connection,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (mut head, body) = request.into_parts();
    let id = AuditId::of(&head.headers);
    let mut response = answer(server, connection, id.as_ref(), Received { head: &mut head, body }).await;
    if let Some(id) = id {
        id.echo(&mut response);
    }
    response
}

async fn answer(
    server: &Server,
    connection: &Connection,
    id: Option<&AuditId>,
    Received { head, body }: Received<'_>,
) -> Response<AnswerBody> {
    let began = clock::now();
    let accept = head.headers.get(header::ACCEPT).cloned();
    let accept = accept.as_ref().and_then(|value| value.to_str().ok());
    if server.state().is_refusing() && !is_exempt(head) {
        body::discard(body).await;
        return shutting_down().map(AnswerBody::untracked);
    }
    let query = head.uri.query().unwrap_or("");
    let read = request_info::parse(&head.method, head.uri.path(), query)
        .map_err(|request_info::PathError::Encoding| Status::bad_request("the path is not valid percent-encoding"))
        .and_then(|info| Ok((time_limit(server, &info, query)?, info)));
    // Nobody is known yet, and the answer counts against the share of all who are unknown.
    let unknown = |status: &Status| {
        let (answer, anonymous) = (respond::status(status, accept), UserInfo::anonymous());
        unread::hold(server, &anonymous, &RequestInfo::default(), &connection.answers, began, answer)
    };
    let (limit, info) = match read {
        Ok(read) => read,
        Err(status) => return unknown(&status),
    };
    let labels = RequestLabels::of(&head.method, &info, query, &head.headers);
    let mut trace = RequestTrace::begin(head, &info, began);
    // The shutdown waits only for requests that end by themselves, so only these are counted.
    let ends = info.verb != "watch" && !request_info::is_streaming(&info.subresource) && !is_exempt(head);
    let _counted = (ends && server.config().termination.send_retry_after).then(|| server.state().request());
    let refused = |labels: RequestLabels, status: &Status| {
        metrics::answered(labels.without_resource(), status.code, Duration::ZERO, (None, None));
        unknown(status)
    };
    let known = match authenticate(server, connection.peer.as_ref(), &head.headers) {
        Ok(known) => known,
        Err(status) => return refused(labels, &status),
    };
    let labels = if known.user.name == ANONYMOUS { labels.without_resource() } else { labels };
    if known.user.name != ANONYMOUS {
        connection.unauthenticated.mark_authenticated();
    }
    let fence = match claim(&head.headers) {
        Ok(fence) => fence,
        Err(status) => return refused(labels, &status),
    };
    // Credentials must not reach a backend behind a proxy.
    server.authenticators().clear(&mut head.headers);
    impersonation::clear(&mut head.headers);
    let agent = head.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
    let mut caller = Caller::new(known.user, Str::new(agent), began + limit);
    caller.counted = known.counted;
    caller.fence = fence;
    caller.audit_id = id.cloned();
    let caller = Arc::new(caller);
    known.warning.into_iter().for_each(|text| caller.warn(text));
    trace.place(&caller, &info, head.uri.query());
    let answering = Answering::begin(labels, began);
    let work = handle(server, &caller, (&info, labels), Received { head, body }, connection, accept);
    let answer = match trace.inside(work).await {
        Ok(response) => response,
        Err(Refused::Status(status)) => respond::status(&status, accept),
        Err(Refused::LimitReached) => {
            metrics::terminated(labels, 429);
            inflight::refusal()
        }
    };
    let ended = clock::now();
    let mut response = unread::hold(server, &caller.counted, &info, &connection.answers, ended, answer);
    for text in caller.take_warnings() {
        if let Ok(value) = http::HeaderValue::from_str(&format!("299 - {}", oarlock_meta::quote::quote(&text))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    let code = response.status();
    if code == StatusCode::GATEWAY_TIMEOUT && ended >= caller.deadline {
        metrics::terminated(labels, 504);
    }
    answering.end(code.as_u16(), ended, (response.body().size_hint().exact(), trace.exemplar()));
    trace.answered(code, ended);
    response
}

/// Whether a server that is shutting down still serves the request: health checks, metrics, and calls with the user agent of an API server
/// (upstream: `isRequestExemptFromRetryAfter`).
fn is_exempt(head: &Parts) -> bool {
    let path = head.uri.path();
    let agent = head.headers.get(header::USER_AGENT).map_or(&b""[..], |agent| agent.as_bytes());
    ["/readyz", "/livez", "/healthz", "/metrics"].iter().any(|exempt| path.starts_with(exempt))
        || agent.starts_with(b"kube-apiserver/")
}

/// Number of bytes of a selector up to which a watch may keep it without being counted.
const SHORT_SELECTOR_BYTES: usize = 8 << 10;

/// The reason why a request is not served.
enum Refused {
    /// The request itself failed.
    Status(Status),
    /// Too many requests are in flight.
    LimitReached,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<inflight::LimitReached> for Refused {
    fn from(_: inflight::LimitReached) -> Self {
        Self::LimitReached
    }
}

/// Returns the answer of a server that is shutting down, with upstream's text.
fn shutting_down() -> Response<Body> {
    let words = "The apiserver is shutting down, please try again later.\n";
    let mut response = text::reply(StatusCode::TOO_MANY_REQUESTS, "text/plain; charset=utf-8", words);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("5"));
    headers.insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

/// The authenticated user of a request.
struct KnownUser {
    /// The user after impersonation.
    user: Arc<UserInfo>,
    /// The user against whose share the request counts.
    counted: Arc<UserInfo>,
    /// A warning about the credential.
    warning: Option<String>,
}

/// Determines the user of a request from its certificate and headers, and applies impersonation.
fn authenticate(server: &Server, peer: Option<&PeerCertificates>, headers: &HeaderMap) -> Result<KnownUser, Status> {
    let now = clock::wall().as_second();
    let known = server.authenticators().authenticate(peer, headers, now).map_err(|refused| {
        tracing::debug!(reasons = ?refused.reasons, "unable to authenticate the request");
        Status::unauthorized("Unauthorized")
    })?;
    if let Some(expires) = peer.and_then(PeerCertificates::expires) {
        metrics::certificate(i64::try_from(expires).unwrap_or(i64::MAX).saturating_sub(now));
    }
    let warning = known.warning.map(str::to_owned);
    let Some(impersonated) = impersonation::requested(headers)? else {
        return Ok(KnownUser { counted: Arc::clone(&known.user), user: known.user, warning });
    };
    for check in &impersonated.checks {
        server.authorize(&check.attributes(&known.user))?;
    }
    let user = Arc::new(impersonated.user);
    Ok(KnownUser { counted: inflight::counted_user(known.user, &user), user, warning })
}

/// Parses the claim under which the request writes.
fn claim(headers: &HeaderMap) -> Result<Option<Fence>, Status> {
    let Some(value) = headers.get(fence::HEADER) else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok()).ok_or(fence::Malformed);
    parsed.map(Some).map_err(|why| Status::bad_request(format!("invalid header {}: {why}", fence::HEADER)))
}

/// Returns the time limit of a request: its `timeout` parameter, bounded by the server's limit. The parameter is ignored for watches
/// and streams, which outlast the limit.
fn time_limit(server: &Server, info: &RequestInfo, query: &str) -> Result<Duration, Status> {
    let most = server.config().request_timeout;
    if !query.contains("timeout=") || info.verb == "watch" || request_info::is_streaming(&info.subresource) {
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

/// Serves the request of an authenticated user. The future is boxed, because it is large: each wrapper around it would copy it.
fn handle<'a>(
    server: &'a Server,
    caller: &'a Arc<Caller>,
    described: (&'a RequestInfo, RequestLabels),
    request: Received<'a>,
    connection: &'a Connection,
    accept: Option<&'a str>,
) -> BoxFuture<'a, Result<Response<Body>, Refused>> {
    Box::pin(handle_unboxed(server, caller, described, request, connection, accept))
}

async fn handle_unboxed(
    server: &Server,
    caller: &Arc<Caller>,
    (info, labels): (&RequestInfo, RequestLabels),
    request: Received<'_>,
    connection: &Connection,
    accept: Option<&str>,
) -> Result<Response<Body>, Refused> {
    let query = request.head.uri.query().unwrap_or("").to_owned();
    if info.resource_request {
        return on_resource(server, caller, (info, labels), request, connection, &query).await;
    }
    let _seat = (!request_info::is_probe(request.head.uri.path()))
        .then(|| server.inflight().enter(&caller.counted, info))
        .transpose()?;
    server.authorize(&Attributes::path(&caller.user, info.verb, &info.path))?;
    if info.path == snapshot::PATH {
        return Ok(snapshot::answer(server, caller, &request.head.method).await?);
    }
    if info.path == kept_spans::PATH {
        // Boxed: the future is several times the size of all others here, and every request's future would have room for it.
        return Ok(Box::pin(kept_spans::answer(server, caller, &request.head.method, &query)).await?);
    }
    if info.path == plain::METRICS {
        return Ok(Box::pin(plain::scrape(server, &request.head.headers)).await?);
    }
    Ok(plain::answer(server, &info.path, &query, request.head, accept)?)
}

/// Serves a request for a resource: checks authorization and route, then executes the call.
async fn on_resource(
    server: &Server,
    caller: &Arc<Caller>,
    (info, labels): (&RequestInfo, RequestLabels),
    Received { head, body }: Received<'_>,
    connection: &Connection,
    query: &str,
) -> Result<Response<Body>, Refused> {
    let streams = request_info::is_streaming(&info.subresource);
    // Long-running requests take no seat, and a request with a body takes its seat when the body has arrived.
    let reads = matches!(info.verb, "get" | "list") && !streams;
    let early = reads.then(|| server.inflight().enter(&caller.counted, info)).transpose()?;
    authorize(server, caller, info, query)?;
    if info.slashes == Slashes::Leading {
        return Ok(plain::page_not_found());
    }
    let Some(row) = resource(&info.group, &info.version, &info.resource) else {
        return Ok(plain::not_served(&info.group)?);
    };
    routes::check(&head.method, &head.headers, row, info)?;
    let query = Query::new(query);
    let namespace = if row.namespaced { info.namespace.as_str() } else { "" };
    let collection = matches!(info.verb, "list" | "watch" | "deletecollection");
    let name = if collection { "" } else { info.name.as_str() };
    let target = Target::new(row, &info.subresource, namespace, name);
    deprecated::warn(caller, row);
    if streams {
        let mut request = Request::from_parts(std::mem::replace(head, Request::new(()).into_parts().0), body);
        request.extensions_mut().insert(connection.remote);
        let seat = server.inflight().stream(&caller.counted, info)?;
        // Boxed: the future is several times the size of all others here, and every request's future would have room for it.
        return Ok(Box::pin(crate::streaming::serve(server, caller, &target, info, &query, request, seat)).await?);
    }
    if info.verb == "watch" {
        let wanted = Wanted::new(&head.headers, &query, row, &info.subresource, true)?;
        let options = options::narrow(options::list(&query, true)?, &info.name)?;
        // A watch counts as a list until its initial events have been sent.
        let seat = server.inflight().enter(&caller.counted, info)?;
        let watch = crate::verbs::watch::watch(server, caller, &target, &options).await?;
        let room = |bytes| server.inflight().answer(&caller.counted, info, bytes);
        let selector = Some(watch.selector_bytes()).filter(|bytes| *bytes > SHORT_SELECTOR_BYTES);
        let selector = selector.map(room).transpose()?;
        let initial = (!watch.is_initialized()).then(|| room(Initial::BYTES)).transpose()?;
        let initial = initial.map(|room| Initial::new(server.streams(), seat, room));
        return Ok(unread::watch(
            &connection.answers,
            stream::watch(
                watch,
                &target,
                wanted,
                stream::Held { initial, _selector: selector, _open: OpenWatch::begin(labels) },
            ),
        ));
    }
    let wanted = Wanted::new(&head.headers, &query, row, &info.subresource, false)?;
    let asked = VerbRequest::read(info, &target, head, &query)?;
    let body = match asked.has_body() {
        true => receive(server, caller, info, body).await?,
        false => Bytes::new(),
    };
    let _seat = match early {
        Some(seat) => seat,
        None => server.inflight().enter(&caller.counted, info)?,
    };
    let owned = || [target.subresource, target.namespace, target.name].map(Str::new);
    if !is_large(server, &target, &asked, &body) {
        let call = asked.call(&target, &body, &query, caller)?;
        let reply = Dispatch::new(server, caller).execute(&target, call).await?;
        if !respond::is_large(&reply, &wanted) {
            return Ok(respond::reply(reply, &target, &wanted)?);
        }
        let [subresource, namespace, name] = owned();
        let work = async move { respond::reply(reply, &Target::new(row, &subresource, &namespace, &name), &wanted) };
        return Ok(in_a_lane(server, caller, work).await?);
    }
    let ([subresource, namespace, name], inside) = (owned(), (server.clone(), Arc::clone(caller)));
    let work = async move {
        let (server, caller) = inside;
        caller.enter_lane();
        let target = Target::new(row, &subresource, &namespace, &name);
        let call = asked.call(&target, &body, &query, &caller)?;
        let reply = Dispatch::new(&server, &caller).execute(&target, call).await?;
        respond::reply(reply, &target, &wanted)
    };
    Ok(in_a_lane(server, caller, work).await?)
}

/// Runs work that takes long in one of the lanes of large requests. Boxed: the future is several times the size of all others here, and every request's future would have room for it.
fn in_a_lane<'a>(
    server: &'a Server,
    caller: &'a Caller,
    work: impl Future<Output = Result<Response<Body>, Status>> + Send + 'static,
) -> BoxFuture<'a, Result<Response<Body>, Status>> {
    Box::pin(async move {
        let user = Str::new(&caller.counted.name);
        server.large().run(&user, inflight::is_system(&caller.counted), caller.deadline, work).await
    })
}

/// Reads a body before the request has a seat: a client that sends slowly uses up its own room for bodies, not the seats that others wait for.
async fn receive(server: &Server, caller: &Caller, info: &RequestInfo, body: Incoming) -> Result<Bytes, Refused> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let max = server.config().max_body;
    let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok()).unwrap_or(max);
    let _room = server.inflight().body(&caller.counted, info, length, max)?;
    Ok(body::read(body, max, caller.deadline).await?)
}

/// Whether a call takes long, because of its body or of the object that it changes.
fn is_large(server: &Server, target: &Target<'_>, asked: &VerbRequest, body: &Bytes) -> bool {
    if large::is_large(asked.format(), body) {
        return true;
    }
    if !asked.changes() || target.name.is_empty() {
        return false;
    }
    let stored = target.key(target.name).ok().and_then(|key| server.view().get(&key));
    // The length of the entry, not of its bytes in memory: a cold entry must be read from the log but takes no less time.
    stored.is_some_and(|entry| large::is_large_stored(entry.length()))
}

fn authorize(server: &Server, caller: &Caller, info: &RequestInfo, query: &str) -> Result<(), Status> {
    // An invalid selector does not narrow the authorization; the error in it is reported only to callers who may list the whole collection. As
    // upstream, the old watch paths take no selector for authorization.
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

/// What a request asks for, as far as URL and headers state it. Errors in these are reported before a body is read.
enum VerbRequest {
    Get(GetOptions),
    List(ListOptions),
    Write { create: bool, format: Format, options: WriteOptions },
    Patch(PatchType, WriteOptions),
    Delete(Result<Format, Status>),
    DeleteCollection(ListOptions, Result<Format, Status>),
}

impl VerbRequest {
    fn read(info: &RequestInfo, target: &Target<'_>, parts: &Parts, query: &Query) -> Result<Self, Status> {
        Ok(match info.verb {
            "get" => Self::Get(options::get(query)?),
            "list" => Self::List(options::narrow(options::list(query, false)?, &info.name)?),
            "create" | "update" => {
                let create = info.verb == "create";
                let options = options::write(query, if create { "CreateOptions" } else { "UpdateOptions" }, false)?;
                Self::Write { create, format: body::media(&parts.headers)?, options }
            }
            "patch" => {
                let patch_type = patch_type(&parts.headers);
                Self::Patch(patch_type, options::write(query, "PatchOptions", patch_type == PatchType::Apply)?)
            }
            // A deletion may have no body: an unknown media type is an error only if there is one.
            "delete" => Self::Delete(body::media(&parts.headers)),
            "deletecollection" => Self::DeleteCollection(options::list(query, false)?, body::media(&parts.headers)),
            _ => {
                let resource = target.resource().group_resource();
                return Err(Status::method_not_supported(&resource, parts.method.as_str()));
            }
        })
    }

    fn has_body(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::List(_))
    }

    /// Whether the request changes the object that its path names.
    fn changes(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::List(_))
    }

    /// Returns the encoding of the body.
    fn format(&self) -> Format {
        match self {
            Self::Write { format, .. } => *format,
            Self::Patch(PatchType::Apply, _) => Format::Yaml,
            Self::Delete(format) | Self::DeleteCollection(_, format) => {
                format.as_ref().copied().unwrap_or(Format::Json)
            }
            Self::Get(_) | Self::List(_) | Self::Patch(..) => Format::Json,
        }
    }

    /// Decodes the body and returns the call.
    fn call(self, target: &Target<'_>, bytes: &Bytes, query: &Query, caller: &Caller) -> Result<Call, Status> {
        Ok(match self {
            Self::Get(options) => Call::Get(options),
            Self::List(options) => Call::List(options),
            Self::Write { create, format, options } => {
                let (ty, gvk) = body_type(target)?;
                let mut obj = body::object(format, bytes, ty, gvk, options.field_validation, caller)?;
                // Bindings and Evictions must state the name of their pod.
                if create
                    && !matches!(target.subresource, "" | "binding" | "eviction")
                    && obj.name().is_empty()
                    && let Some(mut meta) = obj.meta_mut()
                {
                    meta.set_name(target.name);
                }
                if create { Call::Create(obj, options) } else { Call::Update(obj, options) }
            }
            Self::Patch(patch_type, options) => Call::Patch(patch_type, bytes.clone(), options),
            Self::Delete(format) => Call::Delete(delete_options(format, bytes, query)?),
            Self::DeleteCollection(list, format) => Call::DeleteCollection(list, delete_options(format, bytes, query)?),
        })
    }
}

fn delete_options(
    format: Result<Format, Status>,
    bytes: &Bytes,
    query: &Query,
) -> Result<oarlock_client::DeleteOptions, Status> {
    if bytes.is_empty() {
        return options::delete(query, None);
    }
    let ty = oarlock_schema::type_named("meta/v1.DeleteOptions")
        .ok_or_else(|| Status::internal_error("no DeleteOptions type"))?;
    let obj = body::delete_options(format?, bytes, ty)?;
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

/// Returns the type of a patch whose media type the router has accepted.
fn patch_type(headers: &HeaderMap) -> PatchType {
    let text = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    match text.split(';').next().unwrap_or("").trim() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/apply-patch+yaml" => PatchType::Apply,
        _ => PatchType::Strategic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<'a, F>(
        _: impl Fn(
            &'a Server,
            &'a Arc<Caller>,
            (&'a RequestInfo, RequestLabels),
            Received<'a>,
            &'a Connection,
            Option<&'a str>,
        ) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// A future is allocated and copied for each request, with room for the largest of all that the request could need. What is larger than a create has a box of its own.
    #[test]
    fn the_future_of_a_request_has_room_for_a_create_and_no_more() {
        let future = bytes(handle_unboxed);
        assert!(future <= 6 << 10, "{future} bytes");
    }
}

//! The span of a request: who may continue a trace, and what the span says (OpenTelemetry's conventions for HTTP servers and Kubernetes).
//!
//! A span names the route and never the path or the query, because the query of an exec holds the command.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use oarlock_auth::UserInfo;
use oarlock_auth::user::ANONYMOUS;
use oarlock_runtime::{Instant, clock};
use oarlock_schema::Resource;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::metrics::{ExemplarLabels, exemplar};
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use oarlock_telemetry::traces::{self, OpenSpan, Step, traceparent};

use super::request_info::RequestInfo;
use crate::caller::Caller;
use crate::inflight;

/// The group of monitoring agents, whose trace contexts count as upstream's do.
const MONITORING: &str = "system:monitoring";

/// The trace of one request. The span begins with the request and is recorded when the value is dropped: at the head of the answer, or when the client no longer waits.
#[derive(Debug)]
pub(super) struct RequestTrace(Option<Open>);

/// A span that has not ended.
#[derive(Debug)]
struct Open {
    began: Instant,
    kind: RequestKind,
    /// The context that the request brings.
    remote: Option<SpanContext>,
    placed: Option<Placed>,
    /// The status of the answer, and when it was ready.
    answered: Option<(StatusCode, Instant)>,
    _counted: OpenSpan,
}

/// What kind of request a span is about, without anything that a client chose.
#[derive(Clone, Copy, Debug)]
struct RequestKind {
    method: &'static str,
    protocol: &'static str,
    verb: &'static str,
    route: Route,
}

/// The place of a span, which is known when the user is.
#[derive(Debug)]
struct Placed {
    context: SpanContext,
    class: &'static str,
    /// Whether the client's span is the parent; else it is linked.
    trusted: bool,
    /// Namespace and name of the object, for a span that is exported.
    object: Option<(String, String)>,
    /// The seeded bug `query_in_a_span`.
    query: Option<String>,
    /// Who makes the request, with the changes that it has made.
    caller: Arc<Caller>,
}

impl RequestTrace {
    /// Begins the span of a request. Health checks, leases and events have none: they are polls and reports without a cause that a user asks about.
    pub(super) fn begin(head: &Parts, info: &RequestInfo, began: Instant) -> Self {
        if !traces::recording() || is_quiet(info) {
            return Self(None);
        }
        let kind = RequestKind {
            method: method(&head.method),
            protocol: protocol(head.version),
            verb: info.verb,
            route: Route::of(info),
        };
        Self(Some(Open {
            began,
            kind,
            remote: context(&head.headers),
            placed: None,
            answered: None,
            _counted: OpenSpan::new(),
        }))
    }

    /// Gives the span its place, once the user is known: below the client's span, or at the root of a trace of its own, with a link.
    pub(super) fn place(&mut self, caller: &Arc<Caller>, info: &RequestInfo, query: Option<&str>) {
        let Some(open) = &mut self.0 else { return };
        let user = &caller.user;
        let trusted = is_trusted(user);
        let Some(context) = traces::request_context(open.remote.as_ref().filter(|_| trusted)) else { return };
        let object = (traces::exporting() && context.is_sampled()).then(|| {
            let name = if has_name_in_path(info) { info.name.to_string() } else { String::new() };
            let namespace = if info.scoped { info.namespace.to_string() } else { String::new() };
            (namespace, name)
        });
        let query = query.filter(|_| seeded_bug!("query_in_a_span")).map(str::to_owned);
        let (class, caller) = (class(user), Arc::clone(caller));
        open.placed = Some(Placed { context, class, trusted, object, query, caller });
    }

    /// Runs the work of the request inside its span: spans of the work are its children.
    pub(super) fn inside<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        traces::within(self.0.as_ref().and_then(|open| Some(open.placed.as_ref()?.context.clone())), work)
    }

    /// Returns the exemplar of a request whose trace a collector gets.
    pub(super) fn exemplar(&self) -> Option<ExemplarLabels> {
        let placed = self.0.as_ref()?.placed.as_ref().filter(|_| traces::exporting())?;
        exemplar(&placed.context)
    }

    /// Notes what came of the request.
    pub(super) fn answered(&mut self, status: StatusCode, ended: Instant) {
        if let Some(open) = &mut self.0 {
            open.answered = Some((status, ended));
        }
    }
}

impl Drop for RequestTrace {
    fn drop(&mut self) {
        // Of a request that nobody knows who made nothing is recorded.
        if let Some(open) = self.0.take()
            && let Some(placed) = &open.placed
        {
            let changes = placed.caller.take_changes();
            if open.is_kept(placed, &changes) {
                traces::record_request(|| open.step(placed, &changes));
            }
        }
    }
}

impl Open {
    /// Whether the span is recorded: if it is exported, if it has changed an object, or if a trusted client asks for it. A span for each read would cost more than the read is worth.
    fn is_kept(&self, placed: &Placed, changes: &[SpanContext]) -> bool {
        let asked = placed.trusted && self.remote.as_ref().is_some_and(SpanContext::is_sampled);
        asked || !changes.is_empty() || traces::exporting() && placed.context.is_sampled()
    }

    fn step(&self, placed: &Placed, changes: &[SpanContext]) -> Step {
        let RequestKind { method, protocol, verb, route } = self.kind;
        let client = self.remote.as_ref().filter(|_| placed.trusted);
        let (began, ended) = clock::walls(self.began, self.answered.map_or_else(clock::now, |(_, ended)| ended));
        let mut step = Step::request(placed.context.clone(), client, route.name(method))
            .began(began)
            .ended(ended)
            .word("oarlock.user.class", placed.class);
        if let Some(other) = self.remote.as_ref().filter(|_| !placed.trusted) {
            step = step.linked("request", other);
        }
        step = changes.iter().fold(step, |step, change| step.linked("change", change));
        if let Some((status, _)) = self.answered {
            step = step.attribute("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                let why = status.canonical_reason().unwrap_or("error");
                step = step.text("error.type", status.as_str()).failed(why);
            }
        }
        if let Some(query) = &placed.query {
            step = step.text("url.query", query);
        }
        // A span that stays in the ring leaves out what its name and its links say.
        let Some((namespace, name)) = &placed.object else { return step };
        step = step
            .word("http.request.method", method)
            .text("http.route", route.name(method).split_once(' ').map_or("", |(_, path)| path))
            .word("url.scheme", "https")
            .word("network.protocol.version", protocol);
        let Some(row) = route.row else { return step };
        step = step
            .word("oarlock.api.verb", verb)
            .word("oarlock.api.group", row.group)
            .word("oarlock.api.resource", row.plural);
        if let Some(subresource) = route.subresource {
            step = step.word("oarlock.api.subresource", subresource);
        }
        if !namespace.is_empty() {
            step = step.text("k8s.namespace.name", namespace);
        }
        if name.is_empty() { step } else { step.text(name_attribute(row), name) }
    }
}

/// Whether the path names the object. The name of another list or watch comes from a selector, which is part of the query.
fn has_name_in_path(info: &RequestInfo) -> bool {
    !info.name.is_empty() && (info.watch_path || !matches!(info.verb, "list" | "watch"))
}

/// Whether requests of a kind have no span.
fn is_quiet(info: &RequestInfo) -> bool {
    if info.resource_request {
        return matches!(&*info.resource, "leases" | "events");
    }
    ["/healthz", "/livez", "/readyz"].iter().any(|probe| info.path.starts_with(probe))
}

/// Returns the class of a user; never a name, and nothing of a credential.
fn class(user: &UserInfo) -> &'static str {
    if user.in_group(oarlock_auth::user::MASTERS) {
        "masters"
    } else if inflight::is_system(user) {
        "system"
    } else if user.node_name().is_some() {
        "node"
    } else if user.in_group("system:serviceaccounts") {
        "serviceaccount"
    } else if user.name == ANONYMOUS {
        "anonymous"
    } else {
        "user"
    }
}

/// Whether the trace contexts of a user count. Those of others would let any client choose what is exported. A node is such a client: its credential lies on a machine that runs anybody's
/// pods, and a kubelet's own spans are in lives, which are sampled by their ids.
fn is_trusted(user: &UserInfo) -> bool {
    let node = user.node_name().is_some() && seeded_bug!("nodes_sample");
    inflight::is_system(user) || user.in_group(MONITORING) || node || seeded_bug!("anybody_samples")
}

/// Returns the context that a request brings.
fn context(headers: &HeaderMap) -> Option<SpanContext> {
    traceparent::sole(headers.get_all(traceparent::HEADER).iter().map(HeaderValue::as_bytes))
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "_OTHER",
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_11 => "1.1",
        _ => "2",
    }
}

/// The route of a request: a path with names in place of what clients choose. There are as many routes as the API has.
#[derive(Clone, Copy, Debug)]
struct Route {
    /// The path of a request that is about no resource.
    plain: Option<&'static str>,
    row: Option<&'static Resource>,
    watch_path: bool,
    scoped: bool,
    named: bool,
    /// The subresource, `{subresource}` for one that does not exist.
    subresource: Option<&'static str>,
    has_rest: bool,
}

impl Route {
    fn of(info: &RequestInfo) -> Self {
        let row = oarlock_schema::resource(&info.group, &info.version, &info.resource);
        let known = |row: &'static Resource| row.subresource(&info.subresource).map(|known| known.name);
        let subresource = row.filter(|_| !info.subresource.is_empty()).map(|row| known(row).unwrap_or(UNKNOWN));
        Self {
            plain: (!info.resource_request).then(|| plain_route(&info.path)),
            row,
            watch_path: info.watch_path,
            scoped: info.scoped,
            named: has_name_in_path(info),
            subresource,
            has_rest: !info.rest.is_empty(),
        }
    }

    /// Returns a method and the path: the name of a request's span.
    fn name(&self, method: &str) -> String {
        /// Bytes of nearly every name.
        const USUAL: usize = 96;
        let mut name = String::with_capacity(USUAL);
        let mut add = |texts: &[&str]| texts.iter().for_each(|text| name.push_str(text));
        add(&[method, " "]);
        match (self.plain, self.row) {
            (Some(plain), _) => add(&[plain]),
            (None, None) => add(&["/apis/{group}/{version}/{resource}"]),
            (None, Some(row)) => {
                let (prefix, group) = if row.group.is_empty() { ("/api", "") } else { ("/apis/", row.group) };
                add(&[prefix, group, "/", row.version]);
                add(if self.watch_path { &["/watch"] } else { &[] });
                add(if self.scoped { &["/namespaces/{namespace}"] } else { &[] });
                add(&["/", row.plural]);
                add(if self.named { &["/{name}"] } else { &[] });
                if let Some(subresource) = self.subresource {
                    add(&["/", subresource]);
                }
                add(if self.has_rest { &["/{path}"] } else { &[] });
            }
        }
        name
    }
}

/// The segment of a subresource that does not exist.
const UNKNOWN: &str = "{subresource}";

fn plain_route(path: &str) -> &'static str {
    let mut segments = path.trim_matches('/').split('/');
    match (segments.next(), segments.next(), segments.next()) {
        (Some(""), ..) => "/",
        (Some("version"), None, _) => "/version",
        (Some("metrics"), None, _) => "/metrics",
        (Some("metrics"), Some("slis"), None) => "/metrics/slis",
        (Some("api"), None, _) => "/api",
        (Some("api"), Some(_), None) => "/api/{version}",
        (Some("apis"), None, _) => "/apis",
        (Some("apis"), Some(_), None) => "/apis/{group}",
        (Some("apis"), Some(_), Some(_)) => "/apis/{group}/{version}",
        (Some("openapi"), Some("v2"), None) => "/openapi/v2",
        (Some("openapi"), Some("v3"), None) => "/openapi/v3",
        (Some("openapi"), Some("v3"), Some(_)) => "/openapi/v3/{path}",
        _ => "/{path}",
    }
}

/// Returns the attribute for the name of an object. OpenTelemetry has one for these kinds.
fn name_attribute(row: &Resource) -> &'static str {
    match (row.group, row.plural) {
        ("", "pods") => "k8s.pod.name",
        ("", "nodes") => "k8s.node.name",
        ("", "namespaces") => "k8s.namespace.name",
        ("", "replicationcontrollers") => "k8s.replicationcontroller.name",
        ("", "resourcequotas") => "k8s.resourcequota.name",
        ("apps", "deployments") => "k8s.deployment.name",
        ("apps", "replicasets") => "k8s.replicaset.name",
        ("apps", "statefulsets") => "k8s.statefulset.name",
        ("apps", "daemonsets") => "k8s.daemonset.name",
        ("batch", "jobs") => "k8s.job.name",
        ("batch", "cronjobs") => "k8s.cronjob.name",
        ("autoscaling", "horizontalpodautoscalers") => "k8s.hpa.name",
        _ => "oarlock.object.name",
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use oarlock_schema::Str;
    use oarlock_telemetry::traces::opentelemetry::KeyValue;
    use oarlock_telemetry::traces::opentelemetry::trace::{SpanId, Status as TraceStatus};
    use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
    use oarlock_telemetry::traces::{ExportQueue, Ratio, Ring, Sampler, Settings};

    use super::*;
    use crate::http::request_info;

    fn route(target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = request_info::parse(&Method::GET, path, query).unwrap();
        Route::of(&info).name("GET")
    }

    #[test]
    fn routes_hold_nothing_that_a_client_chose() {
        for (target, expected) in [
            ("/api/v1/namespaces/x/pods/y/exec?command=secret", "/api/v1/namespaces/{namespace}/pods/{name}/exec"),
            ("/api/v1/namespaces/x/pods/y/proxy/a/b", "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}"),
            ("/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Dy", "/api/v1/namespaces/{namespace}/pods"),
            ("/api/v1/watch/namespaces/x/pods/y", "/api/v1/watch/namespaces/{namespace}/pods/{name}"),
            ("/api/v1/namespaces/x", "/api/v1/namespaces/{name}"),
            ("/api/v1/namespaces/x/finalize", "/api/v1/namespaces/{name}/finalize"),
            ("/apis/apps/v1/deployments", "/apis/apps/v1/deployments"),
            ("/api/v1/namespaces/x/pods/y/mine", "/api/v1/namespaces/{namespace}/pods/{name}/{subresource}"),
            ("/apis/mine.example/v1/namespaces/x/things/y", "/apis/{group}/{version}/{resource}"),
            ("/apis/mine.example/v1", "/apis/{group}/{version}"),
            ("/apis/mine.example", "/apis/{group}"),
            ("/version", "/version"),
            ("/openapi/v3/apis/apps/v1?hash=1", "/openapi/v3/{path}"),
            ("/mine", "/{path}"),
            ("/version/mine", "/{path}"),
            ("/", "/"),
        ] {
            assert_eq!(route(target), format!("GET {expected}"));
        }
    }

    #[test]
    fn contexts_count_of_the_system_and_of_monitoring_only() {
        let trusted = |name: &str, groups: &[&str]| is_trusted(&UserInfo::new(name, groups.iter().copied()));
        for (name, group) in [
            ("admin", "system:masters"),
            ("prometheus", "system:monitoring"),
            ("system:kube-scheduler", "system:authenticated"),
            ("system:serviceaccount:kube-system:job-controller", "system:serviceaccounts:kube-system"),
        ] {
            assert!(trusted(name, &[group]), "{name}");
        }
        for (name, group) in [
            ("system:anonymous", "system:unauthenticated"),
            ("jane", "system:authenticated"),
            ("system:node:n1", "system:nodes"),
            ("system:serviceaccount:default:default", "system:serviceaccounts:default"),
        ] {
            assert!(!trusted(name, &[group]), "{name}");
        }
    }

    const HEADER: &str = "00-00000000000000000000000000000abc-0000000000000012-01";

    #[test]
    fn two_contexts_are_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(context(&headers), None);
        headers.append(traceparent::HEADER, HEADER.parse().unwrap());
        assert_eq!(context(&headers), traceparent::parse(HEADER));
        headers.append(traceparent::HEADER, HEADER.parse().unwrap());
        assert_eq!(context(&headers), None);
    }

    /// Runs `work` where spans are recorded, at 1 % of the traces that begin here.
    fn traced<T>(work: impl FnOnce(&Ring) -> T) -> T {
        let sampler = Sampler::parent_based(Ratio::per_million(10_000).unwrap());
        let queue = Arc::new(ExportQueue::new(1, 1));
        traces::start(Settings { requests: 256 << 20, ..Settings::exported(sampler, queue) });
        work(&traces::ring().unwrap())
    }

    fn request(user: &UserInfo, method: Method, target: &str, header: &str, status: u16) {
        changing(user, method, target, header, status, Vec::new());
    }

    fn changing(user: &UserInfo, method: Method, target: &str, header: &str, status: u16, changes: Vec<SpanContext>) {
        let request = Request::builder().method(method).uri(target).header("traceparent", header).body(()).unwrap();
        let (head, ()) = request.into_parts();
        let uri = &head.uri;
        let info = request_info::parse(&head.method, uri.path(), uri.query().unwrap_or("")).unwrap();
        let mut trace = RequestTrace::begin(&head, &info, clock::now());
        let caller = caller(user);
        trace.place(&caller, &info, uri.query());
        let _unpolled = trace.inside(async {});
        changes.into_iter().for_each(|change| caller.changed(change));
        trace.answered(StatusCode::from_u16(status).unwrap(), clock::now());
    }

    fn caller(user: &UserInfo) -> Arc<Caller> {
        Arc::new(Caller::new(Arc::new(user.clone()), Str::new("test"), clock::now()))
    }

    fn header(trace: u128) -> String {
        format!("00-{trace:032x}-0000000000000012-01")
    }

    fn linked(ring: &Ring, trace: u128) -> Vec<Arc<SpanData>> {
        let mut spans = ring.all();
        spans.retain(|span| span.links.iter().any(|link| link.span_context.trace_id() == trace.into()));
        spans
    }

    #[test]
    fn a_span_says_what_was_asked_for_and_what_came_of_it() {
        let admin = UserInfo::new("admin", ["system:masters"]);
        let target = "/api/v1/namespaces/x/pods/y/exec?command=secret";
        traced(|ring| {
            request(&admin, Method::POST, target, &header(0xa1), 500);
            let span = ring.trace(0xa1.into()).pop().unwrap();
            let text =
                |key: &str| span.attributes.iter().find(|known| known.key.as_str() == key).unwrap().value.to_string();
            assert_eq!(span.name, "POST /api/v1/namespaces/{namespace}/pods/{name}/exec");
            for (key, value) in [
                ("http.request.method", "POST"),
                ("http.route", "/api/v1/namespaces/{namespace}/pods/{name}/exec"),
                ("http.response.status_code", "500"),
                ("url.scheme", "https"),
                ("network.protocol.version", "1.1"),
                ("oarlock.api.verb", "create"),
                ("oarlock.api.resource", "pods"),
                ("oarlock.api.subresource", "exec"),
                ("oarlock.user.class", "masters"),
                ("k8s.namespace.name", "x"),
                ("k8s.pod.name", "y"),
                ("error.type", "500"),
            ] {
                assert_eq!(text(key), value, "{key}");
            }
            assert_eq!(span.status, TraceStatus::error("Internal Server Error"));
            assert_eq!((span.parent_span_id, span.parent_span_is_remote), (0x12.into(), true));
            assert!(span.span_context.is_sampled() && span.links.is_empty());
            assert!(!format!("{span:?}").contains("secret"));
        });
    }

    #[test]
    fn a_name_in_a_field_selector_is_in_no_span() {
        let admin = UserInfo::new("admin", ["system:masters"]);
        traced(|ring| {
            for (target, has_name) in [
                ("/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Dchosen", false),
                ("/api/v1/namespaces/x/pods?watch=1&fieldSelector=metadata.name%3Dchosen", false),
                ("/api/v1/namespaces/x/pods/chosen", true),
                ("/api/v1/watch/namespaces/x/pods/chosen", true),
            ] {
                request(&admin, Method::GET, target, &header(0xa5), 200);
                let span = ring.trace(0xa5.into()).pop().unwrap();
                assert_eq!(format!("{span:?}").contains("chosen"), has_name, "{target}");
            }
        });
    }

    #[test]
    fn the_request_of_a_stranger_begins_a_trace_with_a_link() {
        let jane = UserInfo::new("jane", ["system:authenticated"]);
        traced(|ring| {
            changing(&jane, Method::GET, "/version", &header(0xa2), 404, vec![changed()]);
            let span = linked(ring, 0xa2).pop().unwrap();
            assert_eq!((span.parent_span_id, ring.trace(0xa2.into()).len()), (SpanId::INVALID, 0));
            assert_eq!(span.status, TraceStatus::Unset, "a client's error is no error of the server");
        });
    }

    /// The root of some change.
    fn changed() -> SpanContext {
        traces::Change::new("6d0a3c52-9e1f-4b7a-8c55-0123456789ab", 1).context()
    }

    #[test]
    fn sampled_headers_of_an_ordinary_user_leave_the_rate_unchanged() {
        leave_the_rate_unchanged(&UserInfo::new("jane", ["system:authenticated"]), 0xa3);
    }

    #[test]
    fn sampled_headers_of_a_node_leave_the_rate_unchanged() {
        leave_the_rate_unchanged(&UserInfo::new("system:node:n1", ["system:nodes"]), 0xa8);
    }

    /// Checks that 10,000 requests with a sampled header of this trace are sampled at the rate of all others, each as a root of its own with a link.
    fn leave_the_rate_unchanged(user: &UserInfo, trace: u128) {
        traced(|ring| {
            (0..10_000).for_each(|_| changing(user, Method::GET, "/version", &header(trace), 200, vec![changed()]));
            let spans = linked(ring, trace);
            let sampled = spans.iter().filter(|span| span.span_context.is_sampled()).count();
            // Five standard deviations around 1 %.
            assert!(spans.len() == 10_000 && (50..150).contains(&sampled), "{sampled} of {}", spans.len());
            assert!(spans.iter().all(|span| span.parent_span_id == SpanId::INVALID));
        });
    }

    #[test]
    fn a_request_that_changes_nothing_is_recorded_only_if_it_is_sampled() {
        let jane = UserInfo::new("jane", ["system:authenticated"]);
        traced(|ring| {
            (0..10_000).for_each(|_| request(&jane, Method::GET, "/version", &header(0xa6), 200));
            let spans = linked(ring, 0xa6);
            assert!(spans.iter().all(|span| span.span_context.is_sampled()));
            assert!((50..150).contains(&spans.len()), "{} of 10,000 at 1 %", spans.len());
        });
    }

    #[test]
    fn a_request_whose_client_no_longer_waits_is_recorded_with_its_changes_and_without_a_status() {
        let jane = UserInfo::new("jane", ["system:authenticated"]);
        let request = Request::builder().uri("/version").header("traceparent", header(0xa7)).body(()).unwrap();
        let (head, ()) = request.into_parts();
        let info = request_info::parse(&head.method, "/version", "").unwrap();
        traced(|ring| {
            let mut trace = RequestTrace::begin(&head, &info, clock::now());
            let caller = caller(&jane);
            trace.place(&caller, &info, None);
            caller.changed(changed());
            drop(trace);
            let span = linked(ring, 0xa7).pop().unwrap();
            assert!(span.links.iter().any(|link| link.span_context == changed()));
            let has_status = |known: &KeyValue| known.key.as_str() == "http.response.status_code";
            assert!(!span.attributes.iter().any(has_status), "{span:?}");
        });
    }

    #[test]
    fn polls_leases_and_events_have_no_span() {
        let admin = UserInfo::new("admin", ["system:masters"]);
        let paths = ["/readyz/ping", "/livez", "/apis/coordination.k8s.io/v1/leases", "/api/v1/namespaces/x/events"];
        traced(|ring| {
            paths.into_iter().for_each(|path| request(&admin, Method::GET, path, &header(0xa4), 200));
            assert_eq!(ring.trace(0xa4.into()).len(), 0);
        });
    }
}

//! The span of a request: who may continue a trace, and what the span says (OpenTelemetry's conventions for HTTP servers and Kubernetes).
//!
//! A span names the route and never the path or the query, because the query of an exec holds the command.

use std::borrow::Cow;

use http::{HeaderMap, Method, Request, StatusCode, Version};
use oarlock_auth::UserInfo;
use oarlock_auth::user::ANONYMOUS;
use oarlock_schema::Resource;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use oarlock_telemetry::traces::{self, TARGET, traceparent};
use tracing::Span;

use super::request_info::RequestInfo;
use crate::inflight;

/// The group of monitoring agents, whose trace contexts count as upstream's do.
const MONITORING: &str = "system:monitoring";

/// The trace of one request. The span begins with the request and ends at the head of the answer.
#[derive(Debug)]
pub(super) struct RequestTrace {
    span: Span,
    remote: Option<SpanContext>,
}

impl RequestTrace {
    /// Begins the span of a request. Health checks, leases and events have none: they are polls and reports without a cause that a user asks about.
    pub(super) fn begin<B>(request: &Request<B>, info: &RequestInfo) -> Self {
        if !traces::recording() || is_quiet(info) {
            return Self { span: Span::none(), remote: None };
        }
        let (method, protocol) = (method(request.method()), protocol(request.version()));
        let row = oarlock_schema::resource(&info.group, &info.version, &info.resource);
        let route = route(info, row);
        let span = tracing::info_span!(
            target: TARGET,
            parent: None,
            "request",
            otel.name = %format_args!("{method} {route}"),
            otel.kind = "server",
            http.request.method = method,
            http.route = &*route,
            url.scheme = "https",
            network.protocol.version = protocol
        );
        if seeded_bug!("query_in_a_span") {
            traces::set(&span, "url.query", request.uri().query().unwrap_or("").to_owned());
        }
        if let Some(row) = row {
            describe(&span, info, row);
        }
        Self { span, remote: context(request.headers()) }
    }

    /// Gives the span its place, once the user is known: below the client's span, or at the root of a trace of its own, with a link.
    pub(super) fn place(&mut self, user: &UserInfo) {
        let remote = self.remote.take();
        if self.span.is_disabled() {
            return;
        }
        traces::set(&self.span, "oarlock.user.class", class(user));
        match remote {
            Some(parent) if is_trusted(user) => traces::adopt(&self.span, parent),
            Some(other) => traces::link(&self.span, "request", &other),
            None => {}
        }
    }

    /// Runs the work of the request inside its span.
    pub(super) fn inside<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        traces::inside(&self.span, work)
    }

    /// Ends the span at the head of the answer.
    pub(super) fn answered(self, status: StatusCode) {
        if self.span.is_disabled() {
            return;
        }
        traces::set(&self.span, "http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            traces::set(&self.span, "error.type", status.as_str().to_owned());
            traces::fail(&self.span, status.canonical_reason().unwrap_or("error"));
        }
    }
}

/// Says which resource a request is about.
fn describe(span: &Span, info: &RequestInfo, row: &'static Resource) {
    traces::set(span, "oarlock.api.verb", info.verb);
    traces::set(span, "oarlock.api.group", row.group);
    traces::set(span, "oarlock.api.resource", row.plural);
    if let Some(subresource) = row.subresource(&info.subresource) {
        traces::set(span, "oarlock.api.subresource", subresource.name);
    }
    if !info.namespace.is_empty() && info.scoped {
        traces::set(span, "k8s.namespace.name", info.namespace.to_string());
    }
    if has_name_in_path(info) {
        traces::set(span, name_attribute(row), info.name.to_string());
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

/// Whether the trace contexts of a user count. Those of others would let any client choose what is exported.
fn is_trusted(user: &UserInfo) -> bool {
    inflight::is_system(user)
        || user.node_name().is_some()
        || user.in_group(MONITORING)
        || seeded_bug!("anybody_samples")
}

/// Returns the context that a request brings. Of several headers none counts, as the standard asks.
fn context(headers: &HeaderMap) -> Option<SpanContext> {
    let mut values = headers.get_all(traceparent::HEADER).iter();
    let context = traceparent::parse(values.next()?.to_str().ok()?);
    if values.next().is_some() { None } else { context }
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

/// Returns the route of a request: a path with names in place of what clients choose. There are as many routes as the API has.
fn route(info: &RequestInfo, row: Option<&'static Resource>) -> Cow<'static, str> {
    if !info.resource_request {
        return Cow::Borrowed(plain_route(&info.path));
    }
    let Some(row) = row else { return Cow::Borrowed("/apis/{group}/{version}/{resource}") };
    let mut route = if row.group.is_empty() {
        format!("/api/{}", row.version)
    } else {
        format!("/apis/{}/{}", row.group, row.version)
    };
    let mut add = |segments: &[&str]| {
        for segment in segments {
            route.push('/');
            route.push_str(segment);
        }
    };
    if info.watch_path {
        add(&["watch"]);
    }
    if info.scoped {
        add(&["namespaces", "{namespace}"]);
    }
    add(&[row.plural]);
    if has_name_in_path(info) {
        add(&["{name}"]);
    }
    if !info.subresource.is_empty() {
        add(&[row.subresource(&info.subresource).map_or("{subresource}", |known| known.name)]);
    }
    if !info.rest.is_empty() {
        add(&["{path}"]);
    }
    Cow::Owned(route)
}

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
    use std::sync::Arc;

    use oarlock_telemetry::traces::opentelemetry::trace::{SpanId, Status as TraceStatus};
    use oarlock_telemetry::traces::opentelemetry_sdk::trace::SpanData;
    use oarlock_telemetry::traces::{Ratio, Ring, Sampler, Settings};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::http::request_info;

    fn of(method: &Method, target: &str) -> Cow<'static, str> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = request_info::parse(method, path, query).unwrap();
        route(&info, oarlock_schema::resource(&info.group, &info.version, &info.resource))
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
            assert_eq!(of(&Method::GET, target), expected, "{target}");
        }
    }

    #[test]
    fn contexts_count_of_the_system_and_of_monitoring_only() {
        let trusted = |name: &str, groups: &[&str]| is_trusted(&UserInfo::new(name, groups.iter().copied()));
        for (name, group) in [
            ("admin", "system:masters"),
            ("prometheus", "system:monitoring"),
            ("system:node:n1", "system:nodes"),
            ("system:kube-scheduler", "system:authenticated"),
            ("system:serviceaccount:kube-system:job-controller", "system:serviceaccounts:kube-system"),
        ] {
            assert!(trusted(name, &[group]), "{name}");
        }
        for (name, group) in [
            ("system:anonymous", "system:unauthenticated"),
            ("jane", "system:authenticated"),
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
        traces::start(Settings { sampler, requests: 256 << 20, ..Settings::ring() });
        let subscriber = tracing_subscriber::registry().with(traces::layer());
        tracing::subscriber::with_default(subscriber, || work(&traces::ring().unwrap()))
    }

    fn request(user: &UserInfo, method: Method, target: &str, header: &str, status: u16) {
        let request = Request::builder().method(method).uri(target).header("traceparent", header).body(()).unwrap();
        let uri = request.uri();
        let info = request_info::parse(request.method(), uri.path(), uri.query().unwrap_or("")).unwrap();
        let mut trace = RequestTrace::begin(&request, &info);
        trace.place(user);
        let _unpolled = trace.inside(async {});
        trace.answered(StatusCode::from_u16(status).unwrap());
    }

    fn header(trace: u128) -> String {
        format!("00-{trace:032x}-0000000000000012-01")
    }

    fn linked(ring: &Ring, trace: u128) -> Vec<Arc<SpanData>> {
        ring.find(|span| span.links.iter().any(|link| link.span_context.trace_id() == trace.into()))
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
            request(&jane, Method::GET, "/version", &header(0xa2), 404);
            let span = linked(ring, 0xa2).pop().unwrap();
            assert_eq!((span.parent_span_id, ring.trace(0xa2.into()).len()), (SpanId::INVALID, 0));
            assert_eq!(span.status, TraceStatus::Unset, "a client's error is no error of the server");
        });
    }

    #[test]
    fn sampled_headers_of_an_ordinary_user_leave_the_rate_unchanged() {
        let jane = UserInfo::new("jane", ["system:authenticated"]);
        traced(|ring| {
            (0..10_000).for_each(|_| request(&jane, Method::GET, "/version", &header(0xa3), 200));
            let spans = linked(ring, 0xa3);
            let sampled = spans.iter().filter(|span| span.span_context.is_sampled()).count();
            // Five standard deviations around 1 %.
            assert!(spans.len() == 10_000 && (50..150).contains(&sampled), "{sampled} of {}", spans.len());
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

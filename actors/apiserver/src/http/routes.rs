//! Checks whether a request has a route.
//!
//! Upstream's router checks in turn the path, the method, the media type of a patch, and what the client accepts. Its refusals have texts of their
//! own and come before any handler sees the request.

use http::{HeaderMap, Method, header};
use oarlock_meta::Status;
use oarlock_schema::Resource;
use oarlock_seeded_bug::seeded_bug;

use super::request_info::{RequestInfo, Slashes, is_streaming};

/// Media types of patches.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// Media types of an answer with an object.
pub(super) const OBJECTS: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Media types of a list or watch.
const STREAMS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Media types of a log.
const LOGS: [&str; 4] = ["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Methods that a proxy subresource forwards.
const PROXIED: &[Method] =
    &[Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
/// Methods that may ask for an upgrade.
const UPGRADED: &[Method] = &[Method::GET, Method::POST];

type Routes = &'static [(&'static str, Method)];

/// The verbs of a path form, each with its method.
const COLLECTION: Routes =
    &[("list", Method::GET), ("watch", Method::GET), ("create", Method::POST), ("deletecollection", Method::DELETE)];
const ALL_NAMESPACES: Routes = &[("list", Method::GET), ("watch", Method::GET)];
const WATCH: Routes = &[("watch", Method::GET)];
const OBJECT: Routes =
    &[("get", Method::GET), ("update", Method::PUT), ("patch", Method::PATCH), ("delete", Method::DELETE)];
const SUBRESOURCE: Routes = &[
    ("get", Method::GET),
    ("create", Method::POST),
    ("update", Method::PUT),
    ("patch", Method::PATCH),
    ("delete", Method::DELETE),
];

/// Checks a request for a known resource. Subresources that connect to a node answer in any media type.
///
/// # Errors
/// 404, 405, 406 and 415.
pub(super) fn check(
    method: &Method,
    headers: &HeaderMap,
    row: &'static Resource,
    info: &RequestInfo,
) -> Result<(), Status> {
    let Some((routes, verbs)) = routes(row, info)? else { return connects(method, info) };
    let mut there = routes.iter().filter(|(verb, _)| verbs.contains(verb)).peekable();
    if there.peek().is_none() {
        return Err(Status::not_found_path());
    }
    if !there.any(|(_, served)| served == method) {
        return Err(method_not_allowed());
    }
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
    if method == Method::PATCH && !names_one_of(text(header::CONTENT_TYPE), &PATCHES) {
        return Err(Status::not_routed(415, "415: Unsupported Media Type"));
    }
    let answers: &[&str] = match (info.subresource.as_str(), info.verb) {
        ("log", _) => &LOGS,
        (_, "list" | "watch") => &STREAMS,
        _ => &OBJECTS,
    };
    let Err(refused) = acceptable(headers, answers) else { return Ok(()) };
    let empty = matches!(text(header::CONTENT_LENGTH), "" | "0");
    match *method {
        Method::POST | Method::PUT | Method::PATCH if empty => {
            Err(unacceptable(415, "Unsupported Media Type", answers))
        }
        _ => Err(refused),
    }
}

/// Checks that the client accepts one of the media types of the answer.
///
/// # Errors
/// 406 with the router's text.
pub(super) fn acceptable(headers: &HeaderMap, answers: &[&str]) -> Result<(), Status> {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    if accept.is_empty() || names_one_of(accept, answers) {
        return Ok(());
    }
    Err(unacceptable(406, "Not Acceptable", answers))
}

fn unacceptable(code: u16, words: &str, answers: &[&str]) -> Status {
    Status::not_routed(code, &format!("{code}: {words}\n\nAvailable representations: {}", answers.join(", ")))
}

/// Checks a request for a subresource that opens a connection: proxies allow paths below them, the others are upgraded.
fn connects(method: &Method, info: &RequestInfo) -> Result<(), Status> {
    let proxy = info.subresource == "proxy";
    if !proxy && !info.rest.is_empty() {
        return Err(Status::not_found_path());
    }
    if !(if proxy { PROXIED } else { UPGRADED }).contains(method) {
        return Err(method_not_allowed());
    }
    Ok(())
}

/// Returns a 405 with the router's text.
pub(super) fn method_not_allowed() -> Status {
    Status::not_routed(405, "")
}

/// Returns the routes of a path and the verbs of its resource; `None` for a subresource with routes of its own.
fn routes(row: &'static Resource, info: &RequestInfo) -> Result<Option<(Routes, &'static [&'static str])>, Status> {
    let missing = || Err(Status::not_found_path());
    let everywhere = row.namespaced && info.namespace.is_empty();
    // Empty segments are allowed only in the part of a path that is forwarded to a proxied server.
    let proxied = info.subresource == "proxy" && !info.name.is_empty() && !(info.scoped && info.namespace.is_empty());
    match info.slashes {
        Slashes::Single => {}
        Slashes::Doubled if proxied => {}
        // As upstream: lists and watches are of all namespaces.
        Slashes::EmptyNamespace if row.namespaced => match info.verb {
            "list" | "watch" => {}
            "create" => return missing(),
            _ => return Err(Status::bad_request("Namespace parameter required.")),
        },
        _ => return missing(),
    }
    // A cluster-scoped kind has no path below a namespace: such a request would be authorized in the namespace but would act on the whole cluster.
    let may_be_scoped = row.namespaced || (row.plural == "namespaces" && seeded_bug!("namespace_in_a_namespace"));
    if info.scoped && !may_be_scoped {
        return missing();
    }
    if info.watch_path {
        let named = everywhere && !info.name.is_empty();
        return if info.subresource.is_empty() && !named { Ok(Some((WATCH, row.verbs))) } else { missing() };
    }
    if info.name.is_empty() || matches!(info.verb, "list" | "watch" | "deletecollection") {
        if !info.subresource.is_empty() {
            return missing();
        }
        return Ok(Some((if everywhere { ALL_NAMESPACES } else { COLLECTION }, row.verbs)));
    }
    if everywhere {
        return missing();
    }
    if info.subresource.is_empty() {
        return Ok(Some((OBJECT, row.verbs)));
    }
    match row.subresource(&info.subresource) {
        Some(_) if info.subresource != "log" && is_streaming(&info.subresource) => Ok(None),
        Some(subresource) if info.rest.is_empty() => Ok(Some((SUBRESOURCE, subresource.verbs))),
        _ => missing(),
    }
}

/// Whether a header names one of these media types, or any type; parameters and qualities are ignored.
fn names_one_of(header: &str, types: &[&str]) -> bool {
    header.split(',').any(|clause| {
        let name = clause.split(';').next().unwrap_or("").trim();
        name == "*/*" || types.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request_info;

    fn answer(method: Method, target: &str, headers: &[(header::HeaderName, &str)]) -> u16 {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = request_info::parse(&method, path, query).unwrap();
        let row = oarlock_schema::resource(&info.group, &info.version, &info.resource).unwrap();
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        check(&method, &headers, row, &info).map_or_else(|status| status.code, |()| 200)
    }

    #[test]
    fn paths_without_a_resource_behind_them_are_not_found() {
        for (method, target) in [
            (Method::GET, "/api/v1/namespaces/x/nodes"),
            (Method::GET, "/api/v1/pods/x"),
            (Method::GET, "/api/v1/watch/pods/x"),
            (Method::GET, "/api/v1/watch/namespaces/x/pods/y/log"),
            // Authorized as `pods/log` and `pods/status`.
            (Method::GET, "/api/v1/namespaces/x/pods//log"),
            (Method::DELETE, "/api/v1/namespaces/x/pods//status"),
            (Method::POST, "/api/v1/namespaces//pods"),
            (Method::GET, "/api/v1/namespaces//nodes"),
            (Method::GET, "/api/v1/namespaces//pods//x"),
            (Method::GET, "//api/v1/namespaces/x/pods"),
            (Method::PUT, "/api/v1/namespaces/x/bindings/y"),
            (Method::GET, "/api/v1/namespaces/x/pods/y/nothing"),
            (Method::GET, "/api/v1/namespaces/x/pods/y/status/more"),
            (Method::POST, "/api/v1/namespaces/x/pods/y/exec/more"),
        ] {
            assert_eq!(answer(method, target, &[]), 404, "{target}");
        }
    }

    #[test]
    fn what_is_below_a_proxy_may_have_any_slashes_and_nothing_else_may() {
        for (target, code) in [
            ("/api/v1/namespaces/x/pods/y/proxy//a//b", 200),
            ("/api/v1/nodes/y/proxy/http://a", 200),
            ("/api/v1/namespaces/x/pods//proxy/a", 404),
            ("/api/v1/namespaces//pods/y/proxy/a", 400),
            ("/api/v1/namespaces//pods/y/proxy/a//b", 404),
            ("//api/v1/namespaces/x/pods/y/proxy/a", 404),
            ("/api/v1/namespaces/x/pods/y//proxy", 404),
        ] {
            assert_eq!(answer(Method::GET, target, &[]), code, "{target}");
        }
    }

    #[test]
    fn no_kind_without_namespaces_is_found_in_one() {
        for row in oarlock_schema::RESOURCES.iter().filter(|row| !row.namespaced) {
            let group = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
            let scoped = format!("{group}/{}/namespaces/a/{}", row.version, row.plural);
            let watched = format!("{group}/{}/watch/namespaces/a/{}", row.version, row.plural);
            for path in
                [scoped.clone(), format!("{scoped}/a"), format!("{scoped}/b"), watched.clone(), format!("{watched}/b")]
            {
                for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                    let patch = [(header::CONTENT_TYPE, "application/merge-patch+json")];
                    assert_eq!(answer(method.clone(), &path, &patch), 404, "{method} {path}");
                }
            }
            for sub in row.subresources {
                assert_eq!(answer(Method::GET, &format!("{scoped}/b/{}", sub.name), &[]), 404, "{scoped} {}", sub.name);
            }
        }
    }

    #[test]
    fn an_empty_namespace_is_all_of_them_to_a_list_and_none_to_anything_else() {
        let patch = [(header::CONTENT_TYPE, "application/merge-patch+json")];
        for (method, target, code) in [
            (Method::GET, "/api/v1/namespaces//pods", 200),
            (Method::GET, "/api/v1/namespaces//pods/", 200),
            (Method::GET, "/api/v1/namespaces//pods?watch=1", 200),
            (Method::GET, "/api/v1/namespaces//pods?fieldSelector=metadata.name%3Dx", 200),
            (Method::GET, "/api/v1/watch/namespaces//pods", 200),
            (Method::GET, "/api/v1/namespaces//pods/x", 400),
            (Method::GET, "/api/v1/namespaces//pods/x/status", 400),
            (Method::PUT, "/api/v1/namespaces//pods/x", 400),
            (Method::PATCH, "/api/v1/namespaces//pods/x", 400),
            (Method::DELETE, "/api/v1/namespaces//pods/x", 400),
            (Method::DELETE, "/api/v1/namespaces//pods", 400),
        ] {
            assert_eq!(answer(method.clone(), target, &patch), code, "{method} {target}");
        }
    }

    #[test]
    fn methods_that_a_path_does_not_have_are_not_allowed() {
        for (method, target) in [
            (Method::PUT, "/api/v1/namespaces/x/pods/y/exec"),
            (Method::DELETE, "/api/v1/namespaces/x/pods/y/portforward"),
            (Method::TRACE, "/api/v1/nodes/y/proxy/a"),
            (Method::POST, "/api/v1/namespaces/x/pods/y"),
            (Method::POST, "/api/v1/pods"),
            (Method::DELETE, "/api/v1/pods"),
            (Method::PUT, "/api/v1/namespaces/x/pods"),
            (Method::HEAD, "/api/v1/namespaces/x/pods"),
            (Method::OPTIONS, "/api/v1/namespaces/x/pods/y"),
            (Method::GET, "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
            (Method::GET, "/apis/authorization.k8s.io/v1/subjectaccessreviews?watch=1"),
        ] {
            assert_eq!(answer(method, target, &[]), 405, "{target}");
        }
    }

    #[test]
    fn the_router_knows_types_but_no_wildcards_within_them() {
        let pods = "/api/v1/namespaces/x/pods";
        for (accept, code) in [("*/*", 200), ("application/json;as=Table", 200), ("application/*", 406), ("a/b", 406)] {
            assert_eq!(answer(Method::GET, pods, &[(header::ACCEPT, accept)]), code, "{accept}");
        }
        let pod = "/api/v1/namespaces/x/pods/y";
        assert_eq!(answer(Method::GET, &format!("{pod}/log"), &[(header::ACCEPT, "text/plain")]), 200);
        for (content, code) in [("application/json", 415), ("application/merge-patch+json; charset=utf-8", 200)] {
            assert_eq!(answer(Method::PATCH, pod, &[(header::CONTENT_TYPE, content)]), code, "{content}");
        }
    }

    #[test]
    fn what_is_served_is_routed() {
        for row in oarlock_schema::RESOURCES {
            let scope = if row.namespaced { "/namespaces/x" } else { "" };
            let group = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
            let collection = format!("{group}/{}{scope}/{}", row.version, row.plural);
            for verb in row.verbs {
                let (method, path) = match *verb {
                    "list" => (Method::GET, collection.clone()),
                    "watch" => (Method::GET, format!("{collection}?watch=1")),
                    "create" => (Method::POST, collection.clone()),
                    "deletecollection" => (Method::DELETE, collection.clone()),
                    "get" => (Method::GET, format!("{collection}/a")),
                    "update" => (Method::PUT, format!("{collection}/a")),
                    "patch" => (Method::PATCH, format!("{collection}/a")),
                    "delete" => (Method::DELETE, format!("{collection}/a")),
                    other => panic!("{other}"),
                };
                let patch = [(header::CONTENT_TYPE, "application/merge-patch+json")];
                assert_eq!(answer(method, &path, &patch), 200, "{verb} {path}");
            }
        }
    }
}

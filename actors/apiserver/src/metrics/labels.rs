//! Which series a request counts in, by upstream's rules (`endpoints/metrics`: `cleanVerb`, `CanonicalVerb`, `cleanDryRun`; scopes by route).

use http::{HeaderMap, Method, header};
use oarlock_client::{Call, PatchType};
use oarlock_schema::Resource;

use super::endpoints::Endpoint;
use crate::http::options::Query;
use crate::http::request_info::{self, RequestInfo};

/// The verb of a request, as upstream's metrics name it: the method, with a few exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Post,
    Put,
    Patch,
    Apply,
    Delete,
    Connect,
    Other,
}

impl Verb {
    pub(super) const ALL: [(Self, &'static str); 10] = [
        (Self::Get, "GET"),
        (Self::List, "LIST"),
        (Self::Watch, "WATCH"),
        (Self::Post, "POST"),
        (Self::Put, "PUT"),
        (Self::Patch, "PATCH"),
        (Self::Apply, "APPLY"),
        (Self::Delete, "DELETE"),
        (Self::Connect, "CONNECT"),
        (Self::Other, "other"),
    ];

    fn of_method(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }

    /// Whether such a request may be a dry run.
    const fn mutates(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch | Self::Apply | Self::Delete)
    }
}

/// Part of the cluster that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A path that names no resource.
    None,
    /// The objects of the cluster.
    Cluster,
    /// The objects of a namespace.
    Namespace,
    /// One object; a create counts as such.
    Resource,
}

impl Scope {
    pub(super) const ALL: [(Self, &'static str); 4] =
        [(Self::None, ""), (Self::Cluster, "cluster"), (Self::Namespace, "namespace"), (Self::Resource, "resource")];
}

/// The parameter `dryRun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRun {
    None,
    All,
    Invalid,
}

impl DryRun {
    pub(super) const ALL: [(Self, &'static str); 3] =
        [(Self::None, ""), (Self::All, "All"), (Self::Invalid, "invalid")];

    fn of(query: &str) -> Self {
        if !query.contains("dryRun") {
            return Self::None;
        }
        let query = Query::new(query);
        let (mut given, mut valid) = (false, true);
        for value in query.all("dryRun") {
            given = true;
            valid &= value == "All";
        }
        match (given, valid) {
            (false, _) => Self::None,
            (true, true) => Self::All,
            (true, false) => Self::Invalid,
        }
    }
}

/// The labels of one request. There are few values of each, whatever clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLabels {
    pub(super) endpoint: Endpoint,
    pub(super) verb: Verb,
    pub(super) scope: Scope,
    pub(super) dry_run: DryRun,
}

impl RequestLabels {
    /// Returns the labels of an HTTP request.
    pub(crate) fn of(method: &Method, info: &RequestInfo, query: &str, headers: &HeaderMap) -> Self {
        if !info.resource_request {
            let endpoint = Endpoint::of_path(&info.path);
            return Self { endpoint, verb: Verb::of_method(method), scope: Scope::None, dry_run: DryRun::None };
        }
        let verb = match Verb::of_method(method) {
            _ if request_info::is_streaming(&info.subresource) => Verb::Connect,
            Verb::Get if info.verb == "watch" => Verb::Watch,
            Verb::Get if info.verb == "list" => Verb::List,
            Verb::Patch if is_apply(headers) => Verb::Apply,
            verb => verb,
        };
        // The name of a list or watch comes from a selector, except on the old watch paths.
        let collection =
            matches!(info.verb, "list" | "watch" | "deletecollection") && (!info.watch_path || info.name.is_empty());
        Self {
            endpoint: Endpoint::of_resource(&info.group, &info.version, &info.resource, &info.subresource),
            verb,
            scope: scope(collection, &info.namespace),
            dry_run: if verb.mutates() { DryRun::of(query) } else { DryRun::None },
        }
    }

    /// Returns the labels of the same verb without a resource: for requests of clients that nobody knows, so that these cannot make a series for each resource.
    pub(crate) const fn without_resource(self) -> Self {
        Self { endpoint: Endpoint::NONE, scope: Scope::None, dry_run: DryRun::None, ..self }
    }

    /// Returns the labels of a call inside the process.
    pub(crate) fn of_call(row: &'static Resource, subresource: &str, namespace: &str, call: &Call) -> Self {
        let (verb, dry_run) = match call {
            Call::Get(_) => (Verb::Get, false),
            Call::List(_) => (Verb::List, false),
            Call::Create(_, options) => (Verb::Post, options.dry_run),
            Call::Update(_, options) => (Verb::Put, options.dry_run),
            Call::Patch(PatchType::Apply, _, options) => (Verb::Apply, options.dry_run),
            Call::Patch(_, _, options) => (Verb::Patch, options.dry_run),
            Call::Delete(options) | Call::DeleteCollection(_, options) => (Verb::Delete, options.dry_run),
        };
        Self {
            endpoint: Endpoint::of_row(row, subresource),
            verb,
            scope: scope(matches!(call, Call::List(_) | Call::DeleteCollection(..)), namespace),
            dry_run: if dry_run { DryRun::All } else { DryRun::None },
        }
    }

    /// Returns the labels of a watch inside the process.
    pub(crate) fn of_watch(row: &'static Resource, namespace: &str) -> Self {
        Self {
            endpoint: Endpoint::of_row(row, ""),
            verb: Verb::Watch,
            scope: scope(true, namespace),
            dry_run: DryRun::None,
        }
    }

    /// Whether the request is a watch, which counts when it ends.
    pub(crate) fn is_watch(self) -> bool {
        self.verb == Verb::Watch
    }
}

fn scope(collection: bool, namespace: &str) -> Scope {
    match (collection, namespace) {
        (false, _) => Scope::Resource,
        (true, "") => Scope::Cluster,
        (true, _) => Scope::Namespace,
    }
}

fn is_apply(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"application/apply-patch+yaml"))
}

#[cfg(test)]
mod tests {
    use super::super::endpoints;
    use super::*;

    /// Returns verb, scope, dry run, resource and subresource of a request.
    fn of(method: &str, target: &str, media: &str) -> [&'static str; 5] {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let info = request_info::parse(&method, path, query).unwrap();
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, media.parse().unwrap())]);
        let labels = RequestLabels::of(&method, &info, query, &headers);
        let facts = endpoints::facts()[labels.endpoint.index()];
        [
            Verb::ALL[labels.verb as usize].1,
            Scope::ALL[labels.scope as usize].1,
            DryRun::ALL[labels.dry_run as usize].1,
            facts.resource,
            facts.subresource,
        ]
    }

    #[test]
    fn labels_are_those_of_upstream() {
        for (method, target, expected) in [
            ("GET", "/api/v1/namespaces/x/pods/y", ["GET", "resource", "", "pods", ""]),
            ("HEAD", "/api/v1/namespaces/x/pods/y", ["GET", "resource", "", "pods", ""]),
            ("GET", "/api/v1/namespaces/x/pods", ["LIST", "namespace", "", "pods", ""]),
            ("HEAD", "/api/v1/pods", ["LIST", "cluster", "", "pods", ""]),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dy", ["LIST", "cluster", "", "pods", ""]),
            ("GET", "/api/v1/pods?watch=1", ["WATCH", "cluster", "", "pods", ""]),
            ("GET", "/api/v1/watch/namespaces/x/pods/y", ["WATCH", "resource", "", "pods", ""]),
            ("GET", "/api/v1/namespaces", ["LIST", "cluster", "", "namespaces", ""]),
            ("GET", "/api/v1/namespaces/x", ["GET", "resource", "", "namespaces", ""]),
            ("POST", "/api/v1/namespaces/x/pods?dryRun=All", ["POST", "resource", "All", "pods", ""]),
            ("POST", "/api/v1/namespaces/x/pods?dryRun=All&dryRun=All", ["POST", "resource", "All", "pods", ""]),
            ("POST", "/api/v1/namespaces/x/pods?dryRun=Some", ["POST", "resource", "invalid", "pods", ""]),
            ("PUT", "/apis/apps/v1/namespaces/x/deployments/y/scale", ["PUT", "resource", "", "deployments", "scale"]),
            ("PATCH", "/api/v1/namespaces/x/pods/y/status", ["PATCH", "resource", "", "pods", "status"]),
            ("DELETE", "/api/v1/namespaces/x/pods/y", ["DELETE", "resource", "", "pods", ""]),
            ("DELETE", "/api/v1/namespaces/x/pods", ["DELETE", "namespace", "", "pods", ""]),
            ("GET", "/api/v1/namespaces/x/pods/y/log", ["CONNECT", "resource", "", "pods", "log"]),
            ("POST", "/api/v1/namespaces/x/pods/y/exec", ["CONNECT", "resource", "", "pods", "exec"]),
            ("GET", "/readyz", ["GET", "", "", "", "/readyz"]),
            ("GET", "/version", ["GET", "", "", "", ""]),
            ("BREW", "/api/v1/namespaces/x/pods/y", ["other", "resource", "", "pods", ""]),
        ] {
            assert_eq!(of(method, target, "application/json"), expected, "{method} {target}");
        }
        let apply = of("PATCH", "/api/v1/namespaces/x/pods/y?dryRun=All", "application/apply-patch+yaml");
        assert_eq!(apply, ["APPLY", "resource", "All", "pods", ""]);
    }

    #[test]
    fn made_up_names_share_labels() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..10_000 {
            seen.insert(of("GET", &format!("/apis/group{number}.example/v{number}/namespaces/n/things/y"), "x/y"));
            seen.insert(of("GET", &format!("/api/v1/namespaces/namespace-{number}/pods"), "x/y"));
            seen.insert(of("GET", &format!("/api/v1/namespaces/n/pods/y/subresource{number}"), "x/y"));
            seen.insert(of("GET", &format!("/path/{number}"), "x/y"));
            seen.insert(of(&format!("VERB{number}"), "/api/v1/namespaces/n/pods/y", &format!("media/{number}")));
            seen.insert(of("POST", &format!("/api/v1/namespaces/n/pods?dryRun={number}"), "x/y"));
        }
        assert!(seen.len() <= 6, "{seen:?}");
    }
}

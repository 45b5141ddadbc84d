//! Parses the pod and container in a path, and selects the node of the process for a request.

use futures::StreamExt;
use futures::stream;
use http::uri::Authority;
use http::{HeaderMap, Uri, header};
use oarlock_schema::Str;

use super::answer::Refusal;
use crate::fleet::{Fleet, KubeletHandle};

/// Largest number of nodes asked concurrently for a pod.
const MAX_CONCURRENT_SEARCHES: usize = 64;

/// Pod and container named by a path `/<verb>/<namespace>/<pod>[/<uid>]/<container>`; port-forward paths name no container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: Str,
    pub(super) pod: Str,
    pub(super) uid: Option<Str>,
    pub(super) container: Str,
}

impl Place {
    /// Parses a path; `None` for a wrong number of parts.
    pub(super) fn parse(path: &str) -> Option<(&str, Self)> {
        let mut parts = path.trim_matches('/').split('/');
        let what = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        if rest.iter().any(|part| part.is_empty()) {
            return None;
        }
        let place = |namespace: &str, pod: &str, uid: Option<&str>, container: &str| Self {
            namespace: namespace.into(),
            pod: pod.into(),
            uid: uid.map(Str::from),
            container: container.into(),
        };
        let place = match (what, rest.as_slice()) {
            ("portForward", [namespace, pod]) => place(namespace, pod, None, ""),
            ("portForward", [namespace, pod, uid]) => place(namespace, pod, Some(uid), ""),
            ("exec" | "attach" | "run" | "containerLogs", [namespace, pod, container]) => {
                place(namespace, pod, None, container)
            }
            ("exec" | "attach" | "run", [namespace, pod, uid, container]) => {
                place(namespace, pod, Some(uid), container)
            }
            _ => return None,
        };
        Some((what, place))
    }
}

/// Node that a request selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The node that the authority names, or the only node.
    Node(Str),
    /// No particular node: the one with the pod in the path, or the process as a whole.
    Any,
}

/// Returns the host of a request, without the port: from the target (HTTP/2's `:authority`, or an absolute URL), else from the `Host` header.
pub(super) fn host(uri: &Uri, headers: &HeaderMap) -> Option<Str> {
    let header = || headers.get(header::HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let authority = uri.authority().cloned().or_else(header)?;
    Some(authority.host().to_ascii_lowercase().into())
}

/// Selects the node by the request's host.
pub(super) fn choose(names: &[Str], host: Option<&str>) -> Choice {
    match (names, host) {
        ([only], _) => Choice::Node(only.clone()),
        (_, Some(host)) if names.iter().any(|name| name == host) => Choice::Node(host.into()),
        _ => Choice::Any,
    }
}

/// Finds the node for a request that selects none. The search asks every node of the process, so callers must have the right at all nodes.
pub(super) async fn search(fleet: &Fleet, path: &str) -> Result<KubeletHandle, Refusal> {
    let asked: Vec<KubeletHandle> = fleet.names().iter().filter_map(|name| fleet.node(name)).collect();
    // Without a match any node answers: that it has no such pod, or that it is healthy.
    let any = asked.first().cloned().ok_or_else(nobody);
    match (Place::parse(path), path.trim_end_matches('/')) {
        (Some((_, place)), _) => first(asked, move |node| has(node, place.clone())).await.map_or(any, Ok),
        // The process is healthy only if all nodes are, so an unhealthy node answers.
        (None, "/healthz" | "/healthz/ping" | "/healthz/syncloop") => first(asked, is_ill).await.map_or(any, Ok),
        // Metrics are those of the whole process.
        (None, "/metrics") => any,
        (None, _) => Err(Refusal::new(421, "several nodes are served here: name one in the Host header\n")),
    }
}

/// Returns the first node that satisfies a condition.
async fn first<F: Future<Output = bool>>(
    nodes: Vec<KubeletHandle>,
    is: impl Fn(KubeletHandle) -> F,
) -> Option<KubeletHandle> {
    let look = |node: KubeletHandle| {
        let found = is(node.clone());
        async move { found.await.then_some(node) }
    };
    let mut found = stream::iter(nodes).map(look).buffer_unordered(MAX_CONCURRENT_SEARCHES);
    while let Some(node) = found.next().await {
        if node.is_some() {
            return node;
        }
    }
    None
}

async fn has(node: KubeletHandle, place: Place) -> bool {
    matches!(node.find(&place.namespace, &place.pod).await, Ok(Some(_)))
}

async fn is_ill(node: KubeletHandle) -> bool {
    node.find("", "").await.is_err()
}

pub(super) fn nobody() -> Refusal {
    Refusal::new(503, "no kubelet runs here\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_pods_and_containers() {
        let (what, place) = Place::parse("/exec/ns/web/main").unwrap();
        assert_eq!((what, place.pod.as_str(), place.container.as_str(), place.uid), ("exec", "web", "main", None));
        let (_, place) = Place::parse("/attach/ns/web/17/main").unwrap();
        assert_eq!((place.uid.as_deref(), place.container.as_str()), (Some("17"), "main"));
        let (_, place) = Place::parse("/portForward/ns/web/17").unwrap();
        assert_eq!((place.namespace.as_str(), place.uid.as_deref()), ("ns", Some("17")));
        for path in ["/exec/ns/web", "/exec//web/main", "/pods", "/", "/portForward/a/b/c/d"] {
            assert_eq!(Place::parse(path), None, "{path}");
        }
    }

    #[test]
    fn a_request_names_its_node_in_the_authority_or_the_host_header() {
        let named = |uri: &str, header: Option<&str>| {
            let headers = header.map(|value| (header::HOST, value.parse().unwrap())).into_iter().collect();
            host(&uri.parse().unwrap(), &headers).map(String::from)
        };
        for (uri, header, wanted) in [
            ("/pods", Some("Node-1:10250"), Some("node-1")),
            ("/pods", Some("node-1"), Some("node-1")),
            ("/pods", Some("[::1]:10250"), Some("[::1]")),
            ("/pods", Some("no host"), None),
            ("/pods", None, None),
            // HTTP/2 sends `:authority`, which takes precedence over the header.
            ("https://node-2:10250/pods", None, Some("node-2")),
            ("https://node-2:10250/pods", Some("node-1"), Some("node-2")),
        ] {
            assert_eq!(named(uri, header).as_deref(), wanted, "{uri} {header:?}");
        }
    }

    #[test]
    fn the_only_node_is_meant_by_whatever_name_and_one_of_several_by_its_own() {
        let (one, two): (Str, Str) = ("a".into(), "b".into());
        let only = Choice::Node(one.clone());
        assert_eq!(choose(std::slice::from_ref(&one), Some("b")), only);
        let names = [one, two];
        assert_eq!(choose(&names, Some("a")), only);
        for (names, host) in [(&names[..], Some("c")), (&names[..], None), (&[][..], Some("a"))] {
            assert_eq!(choose(names, host), Choice::Any, "{names:?} {host:?}");
        }
    }

    #[test]
    fn damaged_paths_are_refused_or_read() {
        let read = oarlock_testkit::damaged_text(1, "/exec/default/web-0/main", 3000);
        let read = read.filter_map(|path| Place::parse(&path).map(|(_, place)| place));
        assert!(read.inspect(|place| assert!(!place.pod.is_empty())).count() > 300);
    }
}

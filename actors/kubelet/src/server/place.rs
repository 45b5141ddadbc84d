//! Which pod and container a path names, and which node of the process has it.

use futures::StreamExt;
use futures::stream;
use http::{HeaderMap, header};
use oarlock_schema::Str;

use super::answer::Refusal;
use crate::fleet::{Fleet, KubeletHandle};

/// Nodes asked at once for a pod.
const AT_ONCE: usize = 64;

/// `/<what>/<namespace>/<pod>[/<uid>]/<container>`; port-forwarding names no container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: Str,
    pub(super) pod: Str,
    pub(super) uid: Option<Str>,
    pub(super) container: Str,
}

impl Place {
    /// Reads a path; `None` when it has too few or too many parts.
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

/// The node that a request is for.
pub(super) async fn node(fleet: &Fleet, path: &str, headers: &HeaderMap) -> Result<KubeletHandle, Refusal> {
    let names = fleet.names();
    if let [only] = names.as_slice() {
        return fleet.node(only).ok_or_else(nobody);
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let host = host.split(':').next().unwrap_or("");
    if let Some(node) = fleet.node(host) {
        return Ok(node);
    }
    let asked: Vec<KubeletHandle> = names.iter().filter_map(|name| fleet.node(name)).collect();
    // Where none stands out some node must say that it has no such pod, or is well, to whom it may tell.
    let any = asked.first().cloned().ok_or_else(nobody);
    match (Place::parse(path), path.trim_end_matches('/')) {
        (Some((_, place)), _) => first(asked, move |node| has(node, place.clone())).await.map_or(any, Ok),
        // All have to be well: one that is not speaks for them.
        (None, "/healthz" | "/healthz/ping" | "/healthz/syncloop") => first(asked, is_ill).await.map_or(any, Ok),
        // Of the process as a whole.
        (None, "/metrics") => any,
        (None, _) => {
            let text = format!("{} nodes are served here: name one in the Host header\n", names.len());
            Err(Refusal::new(421, text))
        }
    }
}

/// The first node of which that is true.
async fn first<F: Future<Output = bool>>(
    nodes: Vec<KubeletHandle>,
    is: impl Fn(KubeletHandle) -> F,
) -> Option<KubeletHandle> {
    let look = |node: KubeletHandle| {
        let found = is(node.clone());
        async move { found.await.then_some(node) }
    };
    let mut found = stream::iter(nodes).map(look).buffer_unordered(AT_ONCE);
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

fn nobody() -> Refusal {
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
    fn damaged_paths_are_refused_or_read() {
        let read = oarlock_testkit::damaged_text(1, "/exec/default/web-0/main", 3000);
        let read = read.filter_map(|path| Place::parse(&path).map(|(_, place)| place));
        assert!(read.inspect(|place| assert!(!place.pod.is_empty())).count() > 300);
    }
}

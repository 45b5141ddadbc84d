//! Computes the authorization attributes of a request (upstream `pkg/kubelet/server/auth.go`, with fine-grained subresources): the verb, and subresources of
//! `nodes` of which any is sufficient.

use http::Method;

/// Path prefixes with a fine-grained subresource each; `proxy` covers these paths too.
const FINE: [(&str, &str); 4] =
    [("/pods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"), ("/runningpods", "pods")];
/// Path prefixes that only their own subresource covers.
const OWN: [(&str, &str); 6] = [
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
];
/// Path prefixes that the read-only port serves.
const PUBLIC: [&str; 3] = ["/healthz", "/pods", "/stats"];

/// Returns the verb of an HTTP method; empty for methods without one in upstream.
pub(super) fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Returns the subresources of a path, in the order of the access reviews.
pub(super) fn subresources(path: &str) -> Vec<&'static str> {
    let of = |rows: &[(&str, &'static str)]| rows.iter().find(|(prefix, _)| below(path, prefix)).map(|(_, sub)| *sub);
    of(&FINE).into_iter().chain([of(&OWN).unwrap_or("proxy")]).collect()
}

/// Whether the read-only port serves a path.
pub(super) fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|prefix| below(path, prefix))
}

fn below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_upstreams_subresources() {
        for (path, wanted) in [
            ("/pods", &["pods", "proxy"][..]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/stats/summary", &["stats"]),
            ("/metrics/cadvisor", &["metrics"]),
            ("/logs/syslog", &["log"]),
            ("/flagz", &["configz"]),
            ("/exec/a/b/c", &["proxy"]),
            ("/podsx", &["proxy"]),
            ("/containerLogs/a/b/c", &["proxy"]),
        ] {
            assert_eq!(subresources(path), wanted, "{path}");
        }
        assert_eq!((verb(&Method::POST), verb(&Method::HEAD)), ("create", ""));
    }

    #[test]
    fn the_read_only_port_shows_little() {
        for (path, public) in [("/pods", true), ("/stats/summary", true), ("/exec/a/b/c", false), ("/metrics", false)] {
            assert_eq!(is_public(path), public, "{path}");
        }
    }
}

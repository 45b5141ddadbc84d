//! Parses what a request is about from its method, path and query alone (upstream: `RequestInfoFactory`).

use oarlock_apis::rules::formats;
use oarlock_meta::FieldSelector;
use oarlock_schema::Str;

/// Whether a path has empty segments. No route has any; slashes at the end of a path are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Slashes {
    /// No empty segment.
    #[default]
    Single,
    /// Two slashes in the place of a namespace (`/api/v1/namespaces//pods`), and nowhere else.
    EmptyNamespace,
    /// Two or more slashes in a row between two segments.
    Doubled,
    /// Two or more slashes in a row before the first segment.
    Leading,
}

/// The parsed request line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestInfo {
    /// Whether the path names a resource (`/api/v1/...`, `/apis/<group>/<version>/...`).
    pub resource_request: bool,
    /// Request verb (`get`, `list`, `watch`, `create`, …) or, for other paths, the lower-case method.
    pub verb: &'static str,
    /// API group, empty for core.
    pub group: Str,
    /// API version.
    pub version: Str,
    /// Namespace, empty for cluster scope and all namespaces.
    pub namespace: Str,
    /// Plural resource.
    pub resource: Str,
    /// Subresource, empty if none.
    pub subresource: Str,
    /// Object name, empty for collections: from the path, or from the field selector of a list or watch that requires one `metadata.name`.
    pub name: Str,
    /// Path segments after the subresource (proxy paths).
    pub rest: Str,
    /// Whether the path is one of the old `/watch/` paths.
    pub watch_path: bool,
    /// Whether the path has a namespace before the resource (`/namespaces/<namespace>/<resource>`). False for `/namespaces/<name>`, the path of a
    /// Namespace itself.
    pub scoped: bool,
    /// Whether the path has empty segments.
    pub slashes: Slashes,
    /// The decoded path of a request that is not about a resource.
    pub path: Str,
}

/// Whether a subresource streams from a node, a pod or a service.
#[must_use]
pub fn is_streaming(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// The reason why a path cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathError {
    /// The path is not valid percent-encoding or UTF-8.
    Encoding,
}

/// Segments of the path of nearly every request.
const USUAL_SEGMENTS: usize = 8;

/// Parses method, path (still percent-encoded) and query.
///
/// # Errors
/// [`PathError::Encoding`] when the path does not decode.
pub fn parse(method: &http::Method, path: &str, query: &str) -> Result<RequestInfo, PathError> {
    let mut info = RequestInfo { verb: method_verb(method), ..RequestInfo::default() };
    // As in upstream's server, an encoded slash counts as a slash, and a segment is empty if nothing is between two slashes.
    let decoded = if path.contains('%') { Some(decode(path)?) } else { None };
    let path = decoded.as_deref().unwrap_or(path);
    info.slashes = slashes(path);
    let mut segments = Vec::with_capacity(USUAL_SEGMENTS);
    segments.extend(path.trim_matches('/').split('/'));
    let (version, mut parts) = match segments.as_slice() {
        ["api", version, parts @ ..] if !parts.is_empty() => (*version, parts),
        ["apis", group, version, parts @ ..] if !parts.is_empty() => {
            info.group = Str::new(group);
            (*version, parts)
        }
        _ => {
            info.path = path.into();
            return Ok(info);
        }
    };
    info.version = Str::new(version);
    if let ["watch", rest @ ..] = parts
        && !rest.is_empty()
    {
        info.watch_path = true;
        parts = rest;
    }
    if let ["namespaces", namespace, of_namespace @ ..] = parts {
        // `namespaces/x` is the object x. If a resource follows that is not a subresource of namespaces, x is the scope of that resource.
        info.scoped = of_namespace.first().is_some_and(|s| !matches!(*s, "status" | "finalize"));
        info.namespace = Str::new(namespace);
        if info.scoped {
            parts = of_namespace;
        }
        let empty = info.scoped && info.namespace.is_empty() && info.slashes == Slashes::Doubled;
        if empty && path.trim_end_matches('/').matches("//").count() == 1 && !path.contains("///") {
            info.slashes = Slashes::EmptyNamespace;
        }
    }
    info.resource_request = true;
    [info.resource, info.name, info.subresource] =
        [0, 1, 2].map(|at| parts.get(at).copied().map(Str::new).unwrap_or_default());
    info.rest = parts.get(3..).unwrap_or_default().join("/").into();
    info.verb = resource_verb(method, &info.name, query, info.watch_path);
    // A selector narrows only lists and watches. The deletion of a collection is always authorized for the whole collection, and the old watch paths
    // have the name in the path.
    if matches!(info.verb, "list" | "watch") && !info.watch_path && info.name.is_empty() {
        info.name = single_name(query).unwrap_or_default();
    }
    Ok(info)
}

fn slashes(path: &str) -> Slashes {
    if path.starts_with("//") {
        Slashes::Leading
    } else if path.trim_end_matches('/').contains("//") {
        Slashes::Doubled
    } else {
        Slashes::Single
    }
}

fn method_verb(method: &http::Method) -> &'static str {
    match *method {
        http::Method::GET => "get",
        http::Method::HEAD => "head",
        http::Method::POST => "post",
        http::Method::PUT => "put",
        http::Method::PATCH => "patch",
        http::Method::DELETE => "delete",
        http::Method::OPTIONS => "options",
        _ => "",
    }
}

fn resource_verb(method: &http::Method, name: &str, query: &str, legacy_watch: bool) -> &'static str {
    if legacy_watch {
        return "watch";
    }
    match *method {
        http::Method::GET | http::Method::HEAD if wants_watch(query) && (name.is_empty()) => "watch",
        http::Method::GET | http::Method::HEAD if name.is_empty() => "list",
        http::Method::GET | http::Method::HEAD => "get",
        http::Method::POST => "create",
        http::Method::PUT => "update",
        http::Method::PATCH => "patch",
        http::Method::DELETE if name.is_empty() => "deletecollection",
        http::Method::DELETE => "delete",
        _ => "",
    }
}

fn wants_watch(query: &str) -> bool {
    pairs(query).find(|(k, _)| k == "watch").is_some_and(|(_, v)| flag(&v))
}

/// Parses a boolean as Go's query conversion does: everything but `false` and `0` is true.
pub fn flag(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// Returns the object to which `fieldSelector=metadata.name=<name>` narrows a collection. This uses the same selector parser as the verb, so that the
/// authorized object is the served one.
fn single_name(query: &str) -> Option<Str> {
    let text = pairs(query).find(|(k, _)| k == "fieldSelector")?.1;
    let selector = FieldSelector::parse(&text).ok()?;
    let name = selector.exact("metadata.name")?;
    formats::path_segment(name).is_empty().then(|| Str::new(name))
}

/// Decodes the key-value pairs of a query string; pairs that do not decode are skipped.
pub fn pairs(query: &str) -> impl Iterator<Item = (Str, Str)> + '_ {
    query.split('&').filter(|p| !p.is_empty()).filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode_query(key).ok()?, decode_query(value).ok()?))
    })
}

fn decode_query(text: &str) -> Result<Str, PathError> {
    if text.contains('+') { decode(&text.replace('+', " ")) } else { decode(text) }
}

fn decode(text: &str) -> Result<Str, PathError> {
    if !text.contains('%') {
        return Ok(Str::new(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let hex = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).ok_or(PathError::Encoding);
        let (high, low) = (hex(bytes.next())?, hex(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).map_err(|_| PathError::Encoding)?);
    }
    String::from_utf8(out).map(Str::from).map_err(|_| PathError::Encoding)
}

/// Whether a path that is not a resource is a probe. Probes do not count against the limits on requests in flight: they must be answered under any load.
/// No header that a client could forge decides this.
pub(super) fn is_probe(path: &str) -> bool {
    ["/readyz", "/livez", "/healthz"].contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &http::Method, target: &str) -> RequestInfo {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        parse(method, path, query).unwrap()
    }

    #[test]
    fn reads_scope_name_and_subresource() {
        let i = info(&http::Method::GET, "/apis/apps/v1/namespaces/x/deployments/web/scale");
        assert_eq!((i.group.as_str(), i.namespace.as_str(), i.resource.as_str()), ("apps", "x", "deployments"));
        assert_eq!((i.name.as_str(), i.subresource.as_str(), i.verb), ("web", "scale", "get"));
    }

    #[test]
    fn a_namespace_is_an_object_in_itself() {
        for (target, sub) in [("/api/v1/namespaces/x", ""), ("/api/v1/namespaces/x/finalize", "finalize")] {
            let i = info(&http::Method::PUT, target);
            assert_eq!((i.resource.as_str(), i.name.as_str(), i.subresource.as_str()), ("namespaces", "x", sub));
            assert_eq!(i.namespace, "x");
        }
    }

    #[test]
    fn collections_list_watch_and_delete() {
        assert_eq!(info(&http::Method::GET, "/api/v1/pods").verb, "list");
        for query in ["watch=1", "watch", "watch=maybe"] {
            assert_eq!(info(&http::Method::GET, &format!("/api/v1/pods?{query}")).verb, "watch", "{query}");
        }
        assert_eq!(info(&http::Method::GET, "/api/v1/pods?watch=False&watch=1").verb, "list");
        assert_eq!(info(&http::Method::GET, "/api/v1/watch/namespaces/x/pods").verb, "watch");
        assert_eq!(info(&http::Method::DELETE, "/api/v1/namespaces/x/pods").verb, "deletecollection");
    }

    #[test]
    fn a_name_selector_on_a_list_or_watch_names_the_object() {
        assert_eq!(info(&http::Method::GET, "/api/v1/nodes?fieldSelector=metadata.name%3Dn1").name, "n1");
        assert_eq!(info(&http::Method::GET, "/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D%3Dn1").name, "n1");
    }

    #[test]
    fn a_collection_is_deleted_under_no_name() {
        let deletion = info(&http::Method::DELETE, "/api/v1/namespaces/x/secrets?fieldSelector=metadata.name%3Done");
        assert_eq!((deletion.verb, deletion.name.as_str()), ("deletecollection", ""));
    }

    #[test]
    fn a_selector_names_only_what_it_requires() {
        for selector in [
            // An escaped comma is part of a value.
            r"metadata.name!=a\,metadata.name=one",
            "metadata.name!=one",
            "metadata.name=a/b",
            "metadata.name=..",
            "metadata.name=one,type",
            "metadata.names=one",
        ] {
            let query = selector.replace('%', "%25").replace('=', "%3D").replace('\\', "%5C");
            assert_eq!(single_name(&format!("fieldSelector={query}")), None, "{selector}");
        }
    }

    #[test]
    fn a_watch_path_watches_what_it_names_and_nothing_that_its_query_says() {
        let one = info(&http::Method::GET, "/api/v1/watch/namespaces/x/secrets/one");
        assert_eq!((one.verb, one.namespace.as_str(), one.name.as_str()), ("watch", "x", "one"));
        let all = info(&http::Method::GET, "/api/v1/watch/namespaces/x/secrets?fieldSelector=metadata.name%3Done");
        assert_eq!((all.verb, all.name.as_str()), ("watch", ""));
        assert_eq!(info(&http::Method::DELETE, "/api/v1/watch/namespaces/x/secrets/one").verb, "watch");
    }

    #[test]
    fn a_namespace_in_front_of_a_resource_is_a_scope() {
        for (path, scoped) in [
            ("/api/v1/namespaces/x/pods", true),
            ("/api/v1/namespaces/x/namespaces/y", true),
            ("/api/v1/namespaces/x", false),
            ("/api/v1/namespaces/x/status", false),
            ("/api/v1/nodes/x", false),
        ] {
            assert_eq!(info(&http::Method::GET, path).scoped, scoped, "{path}");
        }
    }

    #[test]
    fn slashes_without_a_segment_between_them_are_seen() {
        for (path, slashes) in [
            ("/api/v1/pods/", Slashes::Single),
            ("/api/v1/namespaces/x/secrets/one//", Slashes::Single),
            ("/api/v1/namespaces/x/pods//log", Slashes::Doubled),
            ("/api/v1/namespaces//pods", Slashes::EmptyNamespace),
            ("/api/v1/namespaces//pods/x", Slashes::EmptyNamespace),
            ("/api/v1/namespaces//pods//x", Slashes::Doubled),
            ("/api/v1/namespaces///pods", Slashes::Doubled),
            ("/api/v1/pods%2F%2Fx", Slashes::Doubled),
            ("//api/v1/pods", Slashes::Leading),
            ("/%2Fapi/v1/pods", Slashes::Leading),
        ] {
            assert_eq!(info(&http::Method::GET, path).slashes, slashes, "{path}");
        }
    }

    #[test]
    fn a_path_that_is_no_resource_is_authorized_and_served_decoded() {
        assert_eq!(info(&http::Method::GET, "/%76ersion").path, "/version");
        assert_eq!(info(&http::Method::GET, "/api/v1/pods").path, "");
    }

    #[test]
    fn encoded_slashes_part_segments_and_empty_segments_count() {
        let i = info(&http::Method::GET, "/api/v1/namespaces/x/pods/a%2Flog");
        assert_eq!((i.name.as_str(), i.subresource.as_str()), ("a", "log"));
        assert_eq!(info(&http::Method::GET, "/api/v1//pods/").resource, "");
    }

    #[test]
    fn other_paths_are_no_resource_requests() {
        for path in ["/healthz", "/api", "/api/v1", "/apis/apps/v1", "/openapi/v2"] {
            assert!(!info(&http::Method::GET, path).resource_request, "{path}");
        }
    }

    #[test]
    fn damaged_targets_are_refused_or_read_like_any_other() {
        use crate::http::options::{Query, delete, get, list, write};
        const TARGET: &str = "/apis/apps/v1/namespaces/x%20y/deployments/web/scale?watch=1&labelSelector=a%3Db,c+in+(d)\
            &fieldSelector=metadata.name%3Dn&limit=5&resourceVersion=7&resourceVersionMatch=NotOlderThan&timeoutSeconds=9&dryRun=All";
        let mut resources = 0;
        for text in oarlock_testkit::damaged_text(1, TARGET, 5000) {
            let (path, query) = text.split_once('?').unwrap_or((&text, ""));
            for method in [http::Method::GET, http::Method::PATCH, http::Method::DELETE] {
                let Ok(info) = parse(&method, path, query) else { continue };
                resources += usize::from(info.resource_request);
                assert!(info.resource_request || info.version.is_empty(), "{text}");
            }
            let query = Query::new(query);
            let refusals = [
                get(&query).err(),
                list(&query, false).err(),
                list(&query, true).err(),
                write(&query, "CreateOptions", false).err(),
                delete(&query, None).err(),
            ];
            for status in refusals.into_iter().flatten() {
                // Upstream answers 500 when a revision is not a number.
                let revision = status.message.starts_with("resourceVersion: Invalid value");
                assert!(matches!(status.code, 400 | 422) || revision, "{status:?} for {text}");
            }
        }
        assert!(resources > 5000, "only {resources} were still about a resource");
    }

    #[test]
    fn broken_percent_encoding_is_an_error() {
        assert_eq!(parse(&http::Method::GET, "/api/v1/pods/%zz", ""), Err(PathError::Encoding));
    }
}

//! Invalid paths, methods and queries.

use std::io::Read as _;

use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use serde_json::json;

use super::{healthy, refused};

#[test]
fn path_tricks_reach_nothing() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let nobody = cluster.http(Who::Anonymous);
    for path in [
        "//api/v1/secrets",
        "/api//v1/secrets",
        "/healthz/../api/v1/secrets",
        "/version/../../api/v1/secrets",
        "/healthz/..%2fapi/v1/secrets",
        "/api/v1/namespaces/default/../kube-system/secrets",
        "/api/v1/namespaces/%2e%2e/secrets",
        "/version%2f..%2fapi",
        "/.",
    ] {
        let answer = nobody.get(path);
        // Upstream redirects some of these paths to the clean path; none of them is ever served.
        assert!(matches!(answer.code, 301 | 307 | 308 | 400 | 403 | 404), "{path}: {answer}");
    }
    for path in [
        "/api/v1/namespaces/default/configmaps/..",
        "/api/v1/namespaces/default/configmaps/a%2fb",
        "/api/v1/namespaces/default/configmaps/%00",
    ] {
        let answer = http.get(path);
        assert!(matches!(answer.code, 301 | 307 | 308 | 400 | 404), "{path}: {answer}");
    }
    let long = http.get(&format!("/api/v1/namespaces/default/configmaps/{}", "a".repeat(8_000)));
    assert_eq!(long.code, 404, "{}", long.code);
    let endless = http.try_get(&format!("/api/v1/{}", "a".repeat(4 * 1024 * 1024)));
    assert!(endless.is_err() || endless.is_ok_and(|answer| answer.code >= 400));
    healthy(&http);
}

#[test]
fn unknown_groups_resources_and_methods_are_named() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    for path in ["/apis/nothing.example.org", "/apis/nothing.example.org/v1", "/apis/nothing.example.org/v1/things"] {
        let answer = http.get(path);
        assert_eq!((answer.code, answer.text().trim_end()), (404, "404 page not found"), "{path}");
    }
    let not_found = "the server could not find the requested resource";
    refused(&http.get("/api/v1/unicorns"), 404, "NotFound", not_found);
    refused(&http.get("/apis/apps/v1/namespaces/default/unicorns/x"), 404, "NotFound", not_found);
    refused(&http.get("/api/v1/namespaces/default/pods/none"), 404, "NotFound", "pods \"none\" not found");
    let reviews = http.json("DELETE", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &json!({}));
    let not_allowed = "the server does not allow this method on the requested resource";
    refused(&reviews, 405, "MethodNotAllowed", not_allowed);
    for (method, path) in [
        ("BREW", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/api/v1/namespaces/default/configmaps/x"),
        ("PUT", "/api/v1/configmaps"),
        ("POST", "/version"),
    ] {
        refused(&http.send(method, path, &[], b"{}"), 405, "MethodNotAllowed", not_allowed);
    }
    healthy(&http);
}

#[test]
fn impossible_queries_are_refused() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let maps = "/api/v1/namespaces/default/configmaps";
    for (query, code, reason, message) in [
        ("limit=many", 400, "BadRequest", ""),
        ("timeout=soon", 400, "BadRequest", "invalid timeout specified in the request URL - time: invalid duration"),
        ("resourceVersion=abc", 400, "BadRequest", "invalid resource version: resourceVersion: Invalid value"),
        ("watch=1&resourceVersion=abc", 500, "", "parsing \"abc\": invalid syntax"),
        ("watch=1&continue=abc", 422, "Invalid", "resourceVersionMatch is forbidden when continue is provided"),
        ("labelSelector=a%20in%20(", 400, "BadRequest", "unable to parse requirement"),
        ("fieldSelector=data.x%3D1", 400, "BadRequest", "is not a known field selector"),
        ("continue=nonsense", 400, "BadRequest", "continue key is not valid"),
        (
            "resourceVersionMatch=Exact",
            422,
            "Invalid",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        ("sendInitialEvents=true", 422, "Invalid", "sendInitialEvents"),
        ("watch=1&sendInitialEvents=true", 422, "Invalid", "sendInitialEvents"),
    ] {
        let answer = http.get(&format!("{maps}?{query}"));
        eprintln!("{query}: {answer}");
        refused(&answer, code, reason, message);
    }
    healthy(&http);
}

#[test]
fn what_is_no_http_ends_the_connection_and_nothing_else() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        if let Ok(answer) = http.raw(bytes, b"") {
            assert!(answer.code >= 400, "{answer:?}");
        }
    }
    // The client sends bytes that are no TLS.
    let address = http.address();
    let mut plain = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut plain, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A connection reset also ends the connection.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    healthy(&http);
}

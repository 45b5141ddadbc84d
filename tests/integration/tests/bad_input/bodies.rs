//! Bodies that are malformed, too large, of the wrong type, or have unknown fields.

use oarlock_testkit::Cluster;
use oarlock_testkit::http::Who;
use serde_json::json;

use super::{healthy, refused};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: (&str, &str) = ("Content-Type", "application/json");
const YAML: (&str, &str) = ("Content-Type", "application/yaml");
const PROTOBUF: (&str, &str) = ("Content-Type", "application/vnd.kubernetes.protobuf");
/// Upstream's limit of a body is 3 MiB.
const TOO_LARGE: usize = 3 * 1024 * 1024 + 1;

#[test]
fn malformed_bodies_are_refused_as_upstream_refuses_them() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    for body in ["{", "[]", "\"text\"", "{\"metadata\":{\"name\":\"a\"}} more", "\u{0}\u{1}\u{2}", "{\"metadata\":"] {
        let answer = http.send("POST", MAPS, &[JSON], body.as_bytes());
        refused(&answer, 400, "BadRequest", "");
    }
    refused(&http.send("POST", MAPS, &[JSON], b""), 400, "BadRequest", "");
    refused(&http.send("POST", MAPS, &[YAML], b"a: [1,\nb: }"), 400, "BadRequest", "");
    refused(&http.send("POST", MAPS, &[YAML], b"- just\n- a list"), 400, "BadRequest", "");
    let bombs = "[".repeat(200_000);
    refused(&http.send("POST", MAPS, &[JSON], bombs.as_bytes()), 400, "BadRequest", "");
    let nested = format!("{{\"data\":{}", "{\"a\":".repeat(50_000));
    refused(&http.send("POST", MAPS, &[JSON], nested.as_bytes()), 400, "BadRequest", "");
    // A text that is no protobuf; the prefix without a message; a length beyond the end of the body; a length that has no end.
    for body in
        [&b"text"[..], b"k8s\0", b"k8s\0\x0a\xff\xff\xff\xff\x0f", b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
    {
        refused(&http.send("POST", MAPS, &[PROTOBUF], body), 400, "BadRequest", "");
    }
    let patch = [("Content-Type", "application/json-patch+json")];
    let target = "/api/v1/namespaces/default";
    refused(&http.send("PATCH", target, &patch, b"{\"op\":\"add\"}"), 400, "BadRequest", "");
    let merge = [("Content-Type", "application/merge-patch+json")];
    refused(&http.send("PATCH", target, &merge, b"{\"metadata\":"), 400, "BadRequest", "");
    healthy(&http);
}

#[test]
fn bodies_over_the_limit_are_refused() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let large = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(TOO_LARGE)}}).to_string();
    let answer = http.send("POST", MAPS, &[JSON], large.as_bytes());
    refused(&answer, 413, "RequestEntityTooLarge", "limit is 3145728");
    // The body is below the limit of requests and above the limit of the kind.
    let large = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(1024 * 1024 + 1)}});
    refused(&http.json("POST", MAPS, &large), 422, "Invalid", "Too long: may not be more than 1048576 bytes");
    healthy(&http);
}

#[test]
fn unknown_and_double_fields_are_judged_as_asked() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let body = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"dat":{{}},"data":{{"a":"1","a":"2"}}}}"#
        )
    };
    let post = |query: &str, name: &str| http.send("POST", &format!("{MAPS}{query}"), &[JSON], body(name).as_bytes());
    refused(
        &post("?fieldValidation=Strict", "strict"),
        400,
        "BadRequest",
        r#"strict decoding error: unknown field "dat", duplicate field "data.a""#,
    );
    let warned = post("", "warn");
    assert_eq!(warned.code, 201, "{warned}");
    let warnings: Vec<&str> =
        warned.headers.iter().filter(|(name, _)| name == "warning").map(|(_, text)| text.as_str()).collect();
    assert_eq!(warnings, [r#"299 - "unknown field \"dat\"""#, r#"299 - "duplicate field \"data.a\"""#]);
    assert_eq!(warned.json()["data"]["a"], "2", "the last one counts");
    let ignored = post("?fieldValidation=Ignore", "ignore");
    assert_eq!((ignored.code, ignored.header("warning")), (201, None), "{ignored}");
    refused(
        &post("?fieldValidation=Perhaps", "perhaps"),
        422,
        "Invalid",
        "fieldValidation: Unsupported value: \"Perhaps\"",
    );
}

#[test]
fn wrong_types_are_named() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let wrong = json!({"metadata": {"name": "w"}, "data": {"a": 1}});
    refused(
        &http.json("POST", MAPS, &wrong),
        400,
        "BadRequest",
        "cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
    let wrong = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "w"}});
    refused(&http.json("POST", MAPS, &wrong), 400, "BadRequest", "Secret");
    let wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}});
    refused(&http.json("POST", MAPS, &wrong), 400, "BadRequest", "");
    let other = json!({"metadata": {"name": "w", "namespace": "kube-system"}});
    refused(
        &http.json("POST", MAPS, &other),
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    healthy(&http);
}

#[test]
fn content_types_that_nobody_speaks_are_refused() {
    let cluster = Cluster::api_only();
    let http = cluster.http(Who::Admin);
    let body = br#"{"metadata":{"name":"typed"}}"#;
    refused(&http.send("POST", MAPS, &[("Content-Type", "text/plain")], body), 415, "UnsupportedMediaType", "");
    refused(
        &http.send("PATCH", "/api/v1/namespaces/default", &[("Content-Type", "application/json")], b"{}"),
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
    );
    let answer = http.send("GET", MAPS, &[("Accept", "text/html")], b"");
    refused(&answer, 406, "NotAcceptable", "Available representations: application/json, application/yaml");
    assert_eq!(http.send("POST", MAPS, &[], body).code, 201, "no type counts as JSON");
    healthy(&http);
}

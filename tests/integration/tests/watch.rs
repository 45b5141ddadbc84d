//! Lists and watches over HTTP, as a client that is no client-go sees them.

mod expired;
mod pages;
mod streams;

use oarlock_testkit::http::{Answer, Http, Stream};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Flags of a server that remembers as little as it can be told to.
pub(crate) const TINY_WINDOW: &[&str] =
    &["--ephemeral", "--disable", "scheduler,controller-manager,kubelet", "--watch-window-bytes", "1048576"];

/// Writes one ConfigMap, `ballast`, until nothing from before is left in a [`TINY_WINDOW`].
#[track_caller]
pub(crate) fn pass_the_window(http: &Http) {
    let made = http.json("POST", MAPS, &json!({"metadata": {"name": "ballast"}}));
    assert!(matches!(made.code, 201 | 409), "{made}");
    let old = format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", version(&http.get(MAPS).json()));
    let written = (0..64).find(|n| {
        merge(http, "ballast", &json!({"data": {"a": n.to_string(), "b": "x".repeat(100 << 10)}}));
        http.get(&old).code == 410
    });
    assert!(written.is_some(), "6 MiB were written and 1 MiB still holds them");
}

#[track_caller]
fn create(http: &Http, name: &str, labels: &Value) -> Value {
    let answer = http.json("POST", MAPS, &json!({"metadata": {"name": name, "labels": labels}}));
    assert_eq!(answer.code, 201, "{answer}");
    answer.json()
}

#[track_caller]
fn merge(http: &Http, name: &str, patch: &Value) -> Value {
    let headers = [("Content-Type", "application/merge-patch+json")];
    let answer = http.send("PATCH", &format!("{MAPS}/{name}"), &headers, patch.to_string().as_bytes());
    assert_eq!(answer.code, 200, "{answer}");
    answer.json()
}

#[track_caller]
fn delete(http: &Http, name: &str) -> Answer {
    let answer = http.send("DELETE", &format!("{MAPS}/{name}"), &[], b"");
    assert_eq!(answer.code, 200, "{answer}");
    answer
}

#[track_caller]
fn watch(http: &Http, query: &str) -> Stream {
    let stream = http.open("GET", &format!("{MAPS}?watch=1&{query}"), &[], b"").unwrap();
    assert_eq!(stream.code, 200);
    stream
}

/// The next event's type and its object's name.
#[track_caller]
fn next(stream: &mut Stream) -> (String, String) {
    let event = stream.event().expect("an event");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

//! Lists and watches over HTTP, as a client that is no client-go sees them.

mod pages;
mod streams;

use oarlock_testkit::http::{Answer, Http, Stream};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

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

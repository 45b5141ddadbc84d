//! Bodies whose parts contradict each other, the URL or the stored object. The expected answers are those of upstream to the same requests.

mod names;
mod pods;
mod reviews;
mod services;

use oarlock_testkit::http::{Answer, Http};
use serde_json::{Value, json};

use super::{healthy, refused};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Sends a patch of the given content type.
fn patch(http: &Http, kind: &str, path: &str, body: &Value) -> Answer {
    http.send("PATCH", path, &[("Content-Type", kind)], body.to_string().as_bytes())
}

/// Makes the ServiceAccount that pods need, since no controller runs here.
fn account(http: &Http) {
    let made =
        http.json("POST", "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}));
    assert!(matches!(made.code, 201 | 409), "{made}");
}

/// Asserts that an answer is a 422 with just these causes, as `field: message`, in any order.
#[track_caller]
fn invalid(answer: &Answer, causes: &[&str]) {
    refused(answer, 422, "Invalid", "");
    let status = answer.json();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let told = status["details"]["causes"].as_array().into_iter().flatten();
    let mut told: Vec<String> = told.map(|c| format!("{}: {}", text(c, "field"), text(c, "message"))).collect();
    told.sort();
    let mut wanted = causes.to_vec();
    wanted.sort_unstable();
    assert_eq!(told, wanted, "{answer}");
}

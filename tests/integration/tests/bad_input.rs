//! Input that no good client sends: each gets upstream's Status, and the server stays as it was.

mod bodies;
mod credentials;
mod names;
mod paths;
mod pods;
mod reviews;
mod services;

use oarlock_testkit::http::{Answer, Http};
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A patch of the type that the content type says.
fn patch(http: &Http, kind: &str, path: &str, body: &Value) -> Answer {
    http.send("PATCH", path, &[("Content-Type", kind)], body.to_string().as_bytes())
}

/// The account that pods get, which a controller makes elsewhere.
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

/// Asserts that an answer is a Status with this code, reason and part of a message.
#[track_caller]
fn refused(answer: &Answer, code: u16, reason: &str, message: &str) {
    assert_eq!(answer.code, code, "{answer}");
    let status = answer.json();
    assert_eq!(
        (&status["kind"], &status["apiVersion"], &status["status"]),
        (&"Status".into(), &"v1".into(), &"Failure".into()),
        "{answer}"
    );
    assert_eq!(status["code"], code, "{answer}");
    assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{answer}");
    assert!(status["message"].as_str().unwrap_or_default().contains(message), "{message:?} is missing in {answer}");
}

/// Asserts that the server still serves.
#[track_caller]
fn healthy(http: &Http) {
    assert_eq!(http.get("/readyz").text(), "ok");
    assert_eq!(http.get("/api/v1/namespaces/default").code, 200);
}

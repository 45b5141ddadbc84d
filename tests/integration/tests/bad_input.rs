//! Requests that no good client sends: each gets upstream's Status, and the server stays unchanged.

mod agreement;
mod bodies;
mod credentials;
mod evictions;
mod paths;
mod rights;
mod statuses;
mod subresources;

use oarlock_testkit::http::{Answer, Http};

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

//! `Status` as JSON and as text.

use oarlock_meta::field::{ErrorList, FieldError, FieldErrorKind, Omit, Path, Raw};
use oarlock_meta::{GroupKind, GroupResource, Reason, Status};

fn pods() -> GroupResource {
    GroupResource::from_static("", "pods")
}

fn json(status: &Status) -> String {
    String::from_utf8(status.to_json()).unwrap()
}

#[test]
fn not_found_is_upstreams_bytes() {
    let status = Status::not_found(&GroupResource::from_static("apps", "deployments"), "web");
    let want = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"web\" not found","reason":"NotFound","details":{"name":"web","group":"apps","kind":"deployments"},"code":404}"#;
    assert_eq!(json(&status), want);
}

#[test]
fn one_error_stands_alone_and_several_in_brackets() {
    let pod = GroupKind::from_static("", "Pod");
    let spec = Path::new("spec");
    let one = [FieldError::required(&spec.child("y"), "")];
    let status = Status::invalid(&pod, "x", &one);
    assert_eq!(status.message, r#"Pod "x" is invalid: spec.y: Required value"#);
    let two = [one[0].clone(), FieldError::invalid(&spec.child("z").index(2), "Q", "no"), one[0].clone()];
    let status = Status::invalid(&pod, "x", &two);
    assert_eq!(status.message, r#"Pod "x" is invalid: [spec.y: Required value, spec.z[2]: Invalid value: "Q": no]"#);
    let causes = &status.details.as_ref().unwrap().causes;
    assert_eq!(causes.len(), 3);
    assert_eq!(
        (causes[1].reason.as_str(), causes[1].message.as_str(), causes[1].field.as_str()),
        ("FieldValueInvalid", r#"Invalid value: "Q": no"#, "spec.z[2]")
    );
    assert_eq!((status.code, status.is_invalid()), (422, true));
}

#[test]
fn field_errors_use_upstreams_words() {
    let at = Path::new("a");
    for (error, want) in [
        (FieldError::required(&at, "why"), "a: Required value: why"),
        (FieldError::duplicate(&at, "x"), r#"a: Duplicate value: "x""#),
        (FieldError::forbidden(&at, "no"), "a: Forbidden: no"),
        (
            FieldError::not_supported(&at.key("k/x"), "z", &["A", "B"]),
            r#"a[k/x]: Unsupported value: "z": supported values: "A", "B""#,
        ),
        (FieldError::not_supported(&at, 3, &[]), "a: Unsupported value: 3"),
        (FieldError::not_found(&at, true), "a: Not found: true"),
        (FieldError::too_long(&at, 63), "a: Too long: may not be more than 63 bytes"),
        (FieldError::too_long(&at, 1), "a: Too long: may not be more than 1 byte"),
        (FieldError::too_many(&at, 3, 2), "a: Too many: 3: must have at most 2 items"),
        (FieldError::internal(&at, "boom"), "a: Internal error: boom"),
        (FieldError::type_invalid(&at, Raw("{\"x\":1}"), "t"), "a: Invalid value: {\"x\":1}: t"),
        (FieldError::invalid(&Path::ROOT.child("a"), Omit, "d"), "a: Invalid value: d"),
        (FieldError::invalid(&Path::ROOT.index(1).child("b"), -4_i64, ""), "[1].b: Invalid value: -4"),
    ] {
        assert_eq!(error.to_string(), want);
    }
    let list: ErrorList = FieldError::required(&at, "").into();
    assert_eq!(list.to_string(), "a: Required value");
    assert_eq!(FieldErrorKind::TypeInvalid.as_str(), "FieldValueTypeInvalid");
}

#[test]
fn every_constructor_says_what_upstream_says() {
    let quoted = r#"pods "x""#;
    for (status, code, reason, message) in [
        (Status::already_exists(&pods(), "x"), 409, "AlreadyExists", format!("{quoted} already exists")),
        (
            Status::generate_name_conflict(&pods(), "x", 1),
            409,
            "AlreadyExists",
            format!("{quoted} already exists, the server was not able to generate a unique name for the object"),
        ),
        (
            Status::conflict_modified(&pods(), "x"),
            409,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {quoted}: the object has been modified; please apply your changes to the latest version and try again"
            ),
        ),
        (Status::forbidden(&pods(), "x", "why"), 403, "Forbidden", format!("{quoted} is forbidden: why")),
        (Status::forbidden(&pods(), "", "why"), 403, "Forbidden", "pods is forbidden: why".into()),
        (Status::forbidden(&GroupResource::default(), "", "why"), 403, "Forbidden", "forbidden: why".into()),
        (Status::timeout("slow", 0), 504, "Timeout", "Timeout: slow".into()),
        (
            Status::resource_version_too_large(9, 5, 1),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 5".into(),
        ),
        (
            Status::server_timeout(&pods(), "create", 0),
            500,
            "ServerTimeout",
            "The create operation against pods could not be completed at this time, please try again.".into(),
        ),
        (Status::internal_error("boom"), 500, "InternalError", "Internal error occurred: boom".into()),
        (
            Status::method_not_supported(&pods(), "patch"),
            405,
            "MethodNotAllowed",
            r#"patch is not supported on resources of kind "pods""#.into(),
        ),
        (Status::too_old_resource_version(3, 7), 410, "Expired", "too old resource version: 3 (7)".into()),
        (
            Status::request_too_large("limit is 3"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3".into(),
        ),
    ] {
        assert_eq!((status.code, status.reason.as_str(), &status.message), (code, reason, &message));
        let back: Status = serde_json::from_slice(&status.to_json()).unwrap();
        assert_eq!(back, status);
    }
}

#[test]
fn unknown_reasons_survive_and_leave_the_code_to_decide() {
    let text = r#"{"kind":"Status","status":"Failure","reason":"Odd","code":409,"metadata":{"continue":"t"}}"#;
    let status: Status = serde_json::from_str(text).unwrap();
    assert_eq!(status.reason, Reason::Other("Odd".into()));
    assert!(status.is_conflict() && !status.is_already_exists());
    assert_eq!(status.continue_token.as_deref(), Some("t"));
    assert!(serde_json::from_str::<Status>(r#"{"kind":"Pod"}"#).is_err());
}

#[test]
fn only_a_refusal_says_that_a_write_was_not_made() {
    let unknown = [
        Status::timeout("outcome unknown", 0),
        Status::service_unavailable("the connection broke"),
        Status::internal_error("the answer was lost"),
        Status { code: 408, ..Status::bad_request("too slow") },
        Status { code: 0, ..Status::bad_request("no code") },
    ];
    assert!(unknown.iter().all(Status::has_unknown_outcome));
    let known = [
        Status::success(),
        Status { code: 0, ..Status::success() },
        Status::bad_request("no"),
        Status::forbidden(&pods(), "a", "no"),
        Status::already_exists(&pods(), "a"),
        Status::too_many_requests("later", 1),
    ];
    assert!(!known.iter().any(Status::has_unknown_outcome));
}

#[test]
fn success_names_what_was_deleted() {
    let status = Status::success_deleted(&pods(), "x", "u-1");
    assert_eq!(
        json(&status),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","kind":"pods","uid":"u-1"}}"#
    );
}

#[test]
fn generic_answers_are_described_by_their_code() {
    let status = Status::generic_server_response(503, "GET", &pods(), "x", "down", 2, true);
    assert_eq!(status.message, "the server is currently unable to handle the request (get pods x)");
    assert_eq!(status.retry_after(), Some(2));
    assert_eq!(status.cause("UnexpectedServerResponse").unwrap().message, "down");
    let status = Status::generic_server_response(418, "POST", &GroupResource::default(), "", "", 0, false);
    assert_eq!(status.message, "the server responded with the status code 418 but did not return more information");
}

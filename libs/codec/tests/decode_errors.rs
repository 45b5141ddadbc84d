//! Error texts for bodies that cannot be decoded, against those recorded from a kube-apiserver 1.35.0 with fieldValidation=Strict.

use oarlock_codec::{DecodeError, Mode, handled_as, json, strict_error, unrecognized, yaml};
use oarlock_schema::{RESOURCES, TypeRef};

/// Cases whose text differs, each with its reason.
const KNOWN: &[(&str, &str)] = &[];

fn type_of(kind: &str) -> TypeRef {
    RESOURCES.iter().find(|r| r.kind == kind && r.group != "events.k8s.io").unwrap_or_else(|| panic!("no {kind}")).ty
}

/// Returns the message of the 400, or an empty text when the body decodes.
fn answer(kind: &str, media: &str, body: &[u8]) -> String {
    let ty = type_of(kind);
    let attempt = || -> Result<String, (bool, DecodeError)> {
        let decoded = if media == "application/yaml" {
            let generic = yaml::decode_value(body, Mode::Strict).map_err(|e| (false, e))?;
            json::peek_value(&generic.value).map_err(|e| (false, e))?;
            yaml::decode(body, ty, Mode::Strict)
        } else {
            json::peek_gvk(body).map_err(|e| (false, e))?;
            json::decode(body, ty, Mode::Strict)
        };
        Ok(strict_error(&decoded.map_err(|e| (true, e))?.findings).unwrap_or_default())
    };
    match attempt() {
        Ok(text) if text.is_empty() => text,
        Ok(text) => handled_as(kind, "v1", kind, text).message,
        Err((true, error)) => handled_as(kind, "v1", kind, error).message,
        Err((false, error)) => unrecognized(kind, error, body).message,
    }
}

#[test]
fn speaks_as_upstream_about_unreadable_bodies() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("data/decode_errors.json")).unwrap();
    assert!(cases.len() > 100, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let body = match &case["body"] {
            serde_json::Value::String(body) => body.clone(),
            long => long["repeat"].as_str().unwrap().repeat(usize::try_from(long["times"].as_u64().unwrap()).unwrap()),
        };
        let (kind, media) = (case["kind"].as_str().unwrap(), case["type"].as_str().unwrap());
        let (got, want) = (answer(kind, media, body.as_bytes()), case["message"].as_str().unwrap());
        let known = KNOWN.iter().any(|(prefix, _)| body.starts_with(prefix));
        if (got != want) != known {
            wrong.push(format!("{body:.200}\n  want {want}\n  got  {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

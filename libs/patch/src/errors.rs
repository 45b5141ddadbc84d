//! Upstream's texts for patches that cannot be decoded, shared by all patch types.

use oarlock_meta::Status;
use oarlock_schema::Value;

/// Makes upstream's 400 for a patch that cannot be decoded under strict or warning validation.
pub(crate) fn undecodable(error: impl std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {error}"))
}

/// Returns the findings of a strict decode as the texts that upstream lists.
pub(crate) fn problems(findings: &[oarlock_codec::Finding], prefix: &str) -> Vec<String> {
    findings.iter().map(|finding| format!("{prefix}{finding}")).collect()
}

/// Returns the name of a JSON value's kind in errors of Go's decoder.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Number(_) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) | Value::Struct(_) => "object",
    }
}

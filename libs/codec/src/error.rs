//! The errors of encoded objects, in upstream's words, because clients and people match on these texts.

use std::fmt::{self, Write as _};

use oarlock_meta::Status;

/// The error for bytes that cannot be decoded as an object of the wanted type. Prints the text of Go's decoders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not well-formed, or nested too deeply.
    #[error("{0}")]
    Syntax(String),
    /// A value has another type than its field, or its text cannot be parsed (quantities, times, base64).
    #[error("{0}")]
    Value(String),
    /// The kind and version cannot be read (upstream wraps these errors in "the object provided is unrecognized").
    #[error("{0}")]
    Kind(String),
}

/// The kind of a finding of strict field validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// The type has no such field.
    Unknown,
    /// The field occurs twice.
    Duplicate,
    /// A complete message, from the YAML reader.
    Text,
}

/// One finding of strict field validation. Prints as `unknown field "spec.foo"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The path of the field, such as `spec.containers[0].foo`; for [`FindingKind::Text`] the message.
    pub path: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FindingKind::Unknown => write!(f, "unknown field {}", oarlock_meta::quote::quote(&self.path)),
            FindingKind::Duplicate => write!(f, "duplicate field {}", oarlock_meta::quote::quote(&self.path)),
            FindingKind::Text => f.write_str(&self.path),
        }
    }
}

/// Returns the message with which `fieldValidation=Strict` refuses an object with findings; `None` without findings.
#[must_use]
pub fn strict_error(findings: &[Finding]) -> Option<String> {
    let (first, rest) = findings.split_first()?;
    let mut text = format!("strict decoding error: {first}");
    for finding in rest {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {finding}");
    }
    Some(text)
}

/// Makes the 400 for a body that states `kind` and `version` but cannot be decoded as the endpoint's `target` kind.
#[must_use]
pub fn handled_as(kind: &str, version: &str, target: &str, why: impl fmt::Display) -> Status {
    let version = oarlock_meta::quote::quote(version);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {target}: {why}"))
}

/// Makes the 400 for a body whose kind cannot be determined.
#[must_use]
pub fn unrecognized(target: &str, why: impl fmt::Display, body: &[u8]) -> Status {
    let summary = summary(body);
    Status::bad_request(format!("the object provided is unrecognized (must be of type {target}): {why} ({summary})"))
}

/// Returns the first bytes of a body: as text if the body looks like JSON, in hexadecimal otherwise.
fn summary(body: &[u8]) -> String {
    const MAX_BODY_BYTES: usize = 30;
    let shown = body.get(..MAX_BODY_BYTES).unwrap_or(body);
    let tail = if body.len() > MAX_BODY_BYTES { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{tail}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let mut out = String::with_capacity(2 * MAX_BODY_BYTES + 4);
            for byte in shown {
                let _ = write!(out, "{byte:02x}");
            }
            out + tail
        }
    }
}

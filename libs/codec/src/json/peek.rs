//! Reads the kind that a body states, without decoding the body.

use oarlock_meta::{GroupVersion, GroupVersionKind};
use oarlock_schema::Value;

use super::decode::{bad_syntax, utf8};
use super::text::Text;
use crate::error::DecodeError;
use crate::source::{Fail, Kind, Source};
use crate::tree::Tree;

/// The `apiVersion` and `kind` that a body states; each may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peeked {
    /// Group and version.
    pub group_version: GroupVersion,
    /// Kind.
    pub kind: String,
}

impl Peeked {
    /// Fills in missing parts from `default`, by upstream's rule.
    #[must_use]
    pub fn or(&self, default: &GroupVersionKind) -> GroupVersionKind {
        let mut gvk = self.group_version.with_kind(self.kind.as_str());
        if gvk.kind.is_empty() {
            gvk.kind = default.kind.clone();
        }
        if gvk.version.is_empty() && gvk.group.is_empty() {
            gvk.group = default.group.clone();
        }
        if gvk.version.is_empty() && gvk.group == default.group {
            gvk.version = default.version.clone();
        }
        gvk
    }
}

/// Go's type of the struct into which upstream reads these two fields.
const GO_STRUCT: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Reads `apiVersion` and `kind` of a JSON object. Upstream ignores case in these two names here, and only here.
///
/// # Errors
/// [`DecodeError::Kind`] with upstream's text, for malformed JSON, a value that is no object, a field that is no text, and an
/// `apiVersion` with two slashes.
pub fn peek_gvk(bytes: &[u8]) -> Result<Peeked, DecodeError> {
    let text = utf8(bytes);
    let mut src = Text::new(&text);
    match read(&mut src) {
        Ok(found) if src.at_end() => found.done(),
        _ => Err(wrong(bad_syntax(bytes))),
    }
}

/// Reads `apiVersion` and `kind` of a generic value.
///
/// # Errors
/// As for [`peek_gvk`].
pub fn peek_value(value: &Value) -> Result<Peeked, DecodeError> {
    match read(&mut Tree::new(value)) {
        Ok(found) => found.done(),
        Err(_) => Err(wrong(super::syntax::too_deep())),
    }
}

#[derive(Default)]
struct Found {
    api_version: String,
    kind: String,
    error: Option<String>,
}

impl Found {
    fn done(self) -> Result<Peeked, DecodeError> {
        if let Some(text) = self.error {
            return Err(wrong(text));
        }
        let group_version = GroupVersion::parse(&self.api_version).map_err(|e| DecodeError::Kind(e.to_string()))?;
        Ok(Peeked { group_version, kind: self.kind })
    }
}

fn read<'de>(src: &mut impl Source<'de>) -> Result<Found, Fail> {
    let mut found = Found::default();
    let kind = src.peek()?;
    if kind != Kind::Map {
        src.skip(0)?;
        if kind != Kind::Null {
            let what = kind.word();
            found.error = Some(format!("json: cannot unmarshal {what} into Go value of type {GO_STRUCT}"));
        }
        return Ok(found);
    }
    src.begin();
    let mut first = true;
    while let Some(key) = src.next_key(first)? {
        first = false;
        let (slot, name) = if key.eq_ignore_ascii_case("kind") {
            (&mut found.kind, "kind")
        } else if key.eq_ignore_ascii_case("apiVersion") {
            (&mut found.api_version, "apiVersion")
        } else {
            src.skip(1)?;
            continue;
        };
        match src.peek()? {
            Kind::Str => *slot = src.str()?.into_owned(),
            Kind::Null => src.null()?,
            other => {
                let what = other.word();
                found.error.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {what} into Go struct field .{name} of type string")
                });
                src.skip(1)?;
            }
        }
    }
    Ok(found)
}

#[cold]
fn wrong(why: impl std::fmt::Display) -> DecodeError {
    DecodeError::Kind(format!("couldn't get version/kind; json parse error: {why}"))
}

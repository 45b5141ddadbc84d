//! Inserts the resourceVersion into stored bytes, which contain none: the store's revision is spliced in on every read.

use super::text::Text;
use crate::source::{Fail, Kind, Source};

/// Returns the position for `"resourceVersion":"N",` in the canonical JSON of an object without one. The field follows `uid` in built-in types; in custom
/// resources (which begin with `apiVersion`) the fields are in alphabetical order. `None` when the bytes are no such object,
/// contain a resourceVersion, or have no field after the position (the comma would be wrong).
#[must_use]
pub fn splice_offset(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok()?;
    scan(text).ok().flatten()
}

fn scan(text: &str) -> Result<Option<usize>, Fail> {
    let mut src = Text::new(text);
    if src.peek()? != Kind::Map {
        return Ok(None);
    }
    src.begin();
    let mut first = true;
    let mut sorted = false;
    while let Some(key) = src.next_key(first)? {
        if first {
            sorted = key == "apiVersion";
        }
        first = false;
        if key == "metadata" {
            return if src.peek()? == Kind::Map { in_metadata(&mut src, sorted) } else { Ok(None) };
        }
        src.skip(1)?;
    }
    Ok(None)
}

fn in_metadata(src: &mut Text<'_>, sorted: bool) -> Result<Option<usize>, Fail> {
    src.begin();
    let mut first = true;
    loop {
        // Canonical JSON has no space, so the key begins here, or after the comma.
        let at = src.position() + usize::from(!first);
        let Some(key) = src.next_key(first)? else { return Ok(None) };
        first = false;
        if key == "resourceVersion" {
            return Ok(None);
        }
        let before = if sorted {
            &*key < "resourceVersion"
        } else {
            matches!(&*key, "name" | "generateName" | "namespace" | "selfLink" | "uid")
        };
        if !before {
            return Ok(Some(at));
        }
        src.skip(2)?;
    }
}

/// Returns the bytes with `"resourceVersion":"N",` at `at`, a position from [`splice_offset`] or from the encoder.
#[must_use]
pub fn splice_resource_version(bytes: &[u8], at: usize, revision: u64) -> Vec<u8> {
    let (head, tail) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(revision).as_bytes();
    let mut out = Vec::with_capacity(bytes.len() + digits.len() + 21);
    out.extend_from_slice(head);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\",");
    out.extend_from_slice(tail);
    out
}

#[cfg(test)]
mod tests {
    use super::{splice_offset, splice_resource_version};

    fn spliced(json: &str) -> Option<String> {
        let at = splice_offset(json.as_bytes())?;
        Some(String::from_utf8(splice_resource_version(json.as_bytes(), at, 42)).unwrap())
    }

    #[test]
    fn follows_uid_in_built_in_types() {
        let json =
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","creationTimestamp":null},"spec":{}}"#;
        let want = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"42","creationTimestamp":null},"spec":{}}"#;
        assert_eq!(spliced(json).as_deref(), Some(want));
        let bare = r#"{"metadata":{"labels":{}}}"#;
        assert_eq!(spliced(bare).as_deref(), Some(r#"{"metadata":{"resourceVersion":"42","labels":{}}}"#));
    }

    #[test]
    fn keeps_the_alphabet_in_custom_resources() {
        let json = r#"{"apiVersion":"a/v1","kind":"A","metadata":{"managedFields":[{"a":"}"}],"name":"a","uid":"u"}}"#;
        let want = r#"{"apiVersion":"a/v1","kind":"A","metadata":{"managedFields":[{"a":"}"}],"name":"a","resourceVersion":"42","uid":"u"}}"#;
        assert_eq!(spliced(json).as_deref(), Some(want));
    }

    #[test]
    fn declines_what_it_cannot_splice() {
        for json in [
            r#"{"metadata":{"name":"a","resourceVersion":"1","generation":1}}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{}}"#,
            r#"{"metadata":7}"#,
            r#"{"spec":{}}"#,
            r#"[]"#,
            r#"{"metadata":{"name":"#,
            "",
        ] {
            assert_eq!(spliced(json), None, "{json}");
        }
    }
}

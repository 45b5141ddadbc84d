//! Reduces objects to their metadata, for metadata informers (garbage collection, quota).

use oarlock_schema::{Obj, type_named};

use crate::json::text::Text;
use crate::source::{Kind, Source};

/// Makes the `PartialObjectMetadata` of an object; `version` is that of `meta.k8s.io`. `None` only if the schema lacks the type.
#[must_use]
pub fn metadata(obj: &Obj, version: &str) -> Option<Obj> {
    let mut partial = Obj::new(type_named("meta/v1.PartialObjectMetadata")?);
    partial.set_name("apiVersion", format!("meta.k8s.io/{version}"));
    if let Some(meta) = obj.get("metadata") {
        partial.set_name("metadata", meta.clone());
    }
    Some(partial)
}

/// Converts an object's compact JSON to the JSON of its `PartialObjectMetadata` without decoding: the metadata is copied unchanged. `None` when the
/// bytes are no object.
#[must_use]
pub fn metadata_json(object: &[u8], version: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(object).ok()?;
    let mut src = Text::new(text);
    if src.peek().ok()? != Kind::Map {
        return None;
    }
    src.begin();
    let mut meta = None;
    let mut first = true;
    while let Some(key) = src.next_key(first).ok()? {
        first = false;
        if key == "metadata" {
            let start = src.position();
            src.skip(1).ok()?;
            meta = object.get(start..src.position());
            break;
        }
        src.skip(1).ok()?;
    }
    let meta = meta.unwrap_or(b"{}");
    let mut out = Vec::with_capacity(meta.len() + 80);
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    out.extend_from_slice(meta);
    out.push(b'}');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{metadata, metadata_json};
    use crate::{Mode, json, protobuf};
    use oarlock_schema::type_named;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"}"}},"spec":{"containers":null},"status":{}}"#;
    const WANT: &str =
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","labels":{"a":"}"}}}"#;

    #[test]
    fn tree_and_bytes_agree() {
        let pod = json::decode(POD.as_bytes(), type_named("core/v1.Pod").unwrap(), Mode::Strict).unwrap().value;
        let partial = metadata(&pod, "v1").unwrap();
        assert_eq!(String::from_utf8(json::encode(&partial).bytes).unwrap(), WANT);
        assert_eq!(String::from_utf8(metadata_json(POD.as_bytes(), "v1").unwrap()).unwrap(), WANT);
        let wire = protobuf::encode(&partial);
        assert_eq!(protobuf::decode(&wire, partial.ty()).unwrap().value, partial);
    }

    #[test]
    fn declines_what_is_no_object() {
        for json in ["", "[]", "{", "{\"metadata\":", "{\"metadata\":{"] {
            assert_eq!(metadata_json(json.as_bytes(), "v1"), None, "{json}");
        }
    }
}

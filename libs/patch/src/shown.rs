//! Formats a patched document as upstream's errors show the document. Parts that the patch opened are sorted by name, as Go writes a map; unopened
//! parts keep the order of their type.

use oarlock_codec::json;
use oarlock_schema::{Map, Obj, Value};

use crate::json_patch::steps;
use crate::patch_kind::PatchKind;

/// Returns the JSON text of `doc`, the result of `patch` on `current`.
pub(crate) fn document(kind: PatchKind, doc: &Value, current: &Obj, patch: &Value) -> String {
    let opened = match kind {
        PatchKind::Json => opened(patch.items()),
        PatchKind::Merge | PatchKind::Strategic => patch.clone(),
    };
    let mut out = Vec::new();
    write(doc, &Value::Struct(current.clone().into_root()), &opened, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the paths of the operations of a JSON patch, as nested maps.
fn opened(operations: &[Value]) -> Value {
    let mut root = Map::default();
    for operation in operations {
        for pointer in ["path", "from"].iter().filter_map(|name| operation.get(name).and_then(Value::as_str)) {
            let mut at = &mut root;
            for step in steps(pointer) {
                if !matches!(at.get(&step), Some(Value::Map(_))) {
                    at.insert(step.clone(), Map::default());
                }
                let Some(Value::Map(inner)) = at.get_mut(&step) else { break };
                at = inner;
            }
        }
    }
    Value::Map(root)
}

fn write(doc: &Value, before: &Value, opened: &Value, out: &mut Vec<u8>) {
    let (Value::Map(map), Value::Map(opened)) = (doc, opened) else { return json::encode_value(doc, out) };
    if opened.is_empty() {
        return json::encode_value(doc, out);
    }
    out.push(b'{');
    for (i, (key, value)) in map.entries().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::encode_value(&Value::Str(key.clone()), out);
        out.push(b':');
        match (opened.get(key), before.get(key)) {
            (Some(inner), before) => write(value, before.unwrap_or(&Value::Null), inner, out),
            (None, Some(before)) => json::encode_value(before, out),
            (None, None) => json::encode_value(value, out),
        }
    }
    out.push(b'}');
}

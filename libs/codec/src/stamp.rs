//! The kind of a decoded object that does not state its kind.

use oarlock_schema::{Obj, Struct, Value};

/// Sets `kind` and `apiVersion` if missing, for types that have a kind.
pub(crate) fn stamp(root: Struct) -> Struct {
    let Some(gvk) = root.ty().gvk else { return root };
    let has = |name: &str| root.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if has("kind") && has("apiVersion") {
        return root;
    }
    let mut obj = Obj::from_root(root);
    obj.set_gvk(gvk);
    obj.into_root()
}

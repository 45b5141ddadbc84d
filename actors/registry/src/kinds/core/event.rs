//! Events: stored as core/v1, also served as events.k8s.io/v1 with other field names.

use oarlock_client::Propagation;
use oarlock_meta::Status;
use oarlock_schema::{Obj, Struct, TypeRef, Value};

use crate::kind::Strategy;

/// The strategy of events, for both groups.
#[derive(Debug)]
pub struct EventStrategy;

/// (core/v1 path, events.k8s.io/v1 path) of the fields whose paths differ.
const RENAMED: &[(&[&str], &[&str])] = &[
    (&["involvedObject"], &["regarding"]),
    (&["message"], &["note"]),
    (&["source"], &["deprecatedSource"]),
    (&["firstTimestamp"], &["deprecatedFirstTimestamp"]),
    (&["lastTimestamp"], &["deprecatedLastTimestamp"]),
    (&["count"], &["deprecatedCount"]),
    (&["reportingComponent"], &["reportingController"]),
];
/// Fields with the same name in both groups.
const SHARED: &[&str] =
    &["metadata", "reason", "type", "eventTime", "series", "action", "related", "reportingInstance"];

impl Strategy for EventStrategy {
    fn default_propagation(&self) -> Option<Propagation> {
        None
    }

    fn convert(&self, obj: &Obj, to: TypeRef) -> Result<Obj, Status> {
        if std::ptr::eq(obj.ty(), to) {
            return Ok(obj.clone());
        }
        let forward = obj.ty().name.starts_with("core/");
        let mut out = Obj::new(to);
        for name in SHARED {
            copy(obj, &[name], &mut out, &[name]);
        }
        for (core, events) in RENAMED {
            if forward { copy(obj, core, &mut out, events) } else { copy(obj, events, &mut out, core) }
        }
        oarlock_schema::canonical::canonicalize(&mut out);
        Ok(out)
    }
}

fn copy(from: &Struct, source: &[&str], to: &mut Struct, target: &[&str]) {
    let Some(value) = from.at(source) else { return };
    let value = match value {
        // `series` has a struct type of its own in each group.
        Value::Struct(inner) => {
            let Some(target_type) =
                target.first().and_then(|n| to.ty().field(n)).and_then(|(_, def)| def.shape.element_type())
            else {
                return;
            };
            Value::Struct(retype(inner, target_type))
        }
        other => other.clone(),
    };
    to.set_at(target, value);
}

/// Returns the same fields as a struct of another type.
fn retype(node: &Struct, ty: TypeRef) -> Struct {
    if std::ptr::eq(node.ty(), ty) {
        return node.clone();
    }
    let mut out = Struct::new(ty);
    for (def, value) in node.iter() {
        out.set_name(def.name, value.clone());
    }
    out
}

//! Merge patch (RFC 7386): objects merge, `null` deletes, anything else replaces.

use oarlock_codec::{Mode, json};
use oarlock_meta::Status;
use oarlock_schema::Value;

use crate::errors::{json_kind, problems, undecodable};

/// Applies `patch` to `doc`; also returns the findings of strict decoding of the patch.
pub(crate) fn patch(mut doc: Value, patch: &[u8], mode: Mode) -> Result<(Value, Vec<String>), Status> {
    let not_a_patch = || Status::bad_request("Invalid JSON Patch");
    let decoded = json::decode_value(patch, mode).map_err(|error| match mode {
        Mode::Strict => undecodable(error),
        Mode::Lenient => not_a_patch(),
    })?;
    match &decoded.value {
        Value::Map(_) => {}
        Value::Null => return Err(not_a_patch()),
        other if mode == Mode::Strict => {
            let kind = json_kind(other);
            return Err(undecodable(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
        // Without validation upstream takes a list as the whole new document, which then is no object.
        Value::List(_) => {}
        _ => return Err(not_a_patch()),
    }
    let found = problems(&decoded.findings, "");
    merge(&mut doc, decoded.value);
    Ok((doc, found))
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Map(patch) = patch else {
        *target = patch;
        return;
    };
    let Value::Map(map) = target else {
        *target = Value::Map(patch);
        prune(target);
        return;
    };
    let patch = patch.entries().iter().map(|(key, value)| (key.as_str(), value));
    let Ok(()) = map.merge_sorted(patch, |_, old, value| {
        Ok::<_, std::convert::Infallible>(match old {
            _ if value.is_null() => None,
            Some(mut old) if !old.is_null() => {
                merge(&mut old, value.clone());
                Some(old)
            }
            _ => {
                let mut value = value.clone();
                prune(&mut value);
                Some(value)
            }
        })
    });
}

/// Removes `null` members of objects in a value that is new in its position; lists keep theirs, as upstream has it.
fn prune(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, value| {
            prune(value);
            !value.is_null()
        }),
        Value::List(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

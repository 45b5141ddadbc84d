//! JSON patch (RFC 6902), with the laxness of upstream's library: `replace` and `copy` accept object members that do not exist, and list indexes may be
//! negative.

mod document;

use oarlock_codec::{MAX_DEPTH, Mode, json};
use oarlock_meta::{GroupResource, Status};
use oarlock_schema::{Map, Str, Value};

use document::Node;

use crate::errors::{json_kind, problems, undecodable};

/// The most operations that upstream accepts in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that all `copy` operations together may add (upstream `JSONPatchMaxCopyBytes`).
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The most values that all `move` operations together may measure: an operation of a few bytes can move, and so measure, the whole document.
const MAX_MEASURED: usize = 10_000_000;

/// The error of an operation that does not apply. Upstream hides the reason from the client.
struct Refused;

/// The resources that the operations of one patch have used together.
#[derive(Default)]
struct Used {
    /// Bytes copied.
    copied: usize,
    /// Values visited to measure depth.
    measured: usize,
}

/// Applies `patch` to `doc`; also returns the findings of strict decoding of the patch.
pub(crate) fn patch(doc: Value, patch: &[u8], mode: Mode) -> Result<(Value, Vec<String>), Status> {
    let decoded = json::decode_value(patch, mode).map_err(|error| match mode {
        Mode::Strict => undecodable(error),
        Mode::Lenient => Status::bad_request(error.to_string()),
    })?;
    let operations = check(&decoded.value, mode)?;
    let mut found = strange_members(operations, mode);
    found.extend(problems(&decoded.findings, "json patch "));
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(Status::request_too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        )));
    }
    let mut used = Used::default();
    let mut doc = Node::Closed(doc);
    for operation in operations {
        apply(&mut doc, operation, &mut used)
            .map_err(|Refused| Status::generic_server_response(422, "", &GroupResource::default(), "", "", 0, false))?;
    }
    Ok((doc.close(), found))
}

/// Returns the operations if the patch is a list of objects whose text members are texts.
fn check(patch: &Value, mode: Mode) -> Result<&[Value], Status> {
    let (list, item) = match mode {
        Mode::Strict => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
        Mode::Lenient => ("jsonpatch.Patch", "jsonpatch.Operation"),
    };
    let refuse = |text: String| match mode {
        Mode::Strict => undecodable(text),
        Mode::Lenient => Status::bad_request(text),
    };
    let operations = match patch {
        Value::Null => return Ok(&[]),
        Value::List(items) => items,
        other => {
            let kind = json_kind(other);
            return Err(refuse(format!("json: cannot unmarshal {kind} into Go value of type {list}")));
        }
    };
    for operation in operations {
        let Value::Map(members) = operation else {
            if operation.is_null() {
                continue;
            }
            let kind = json_kind(operation);
            return Err(refuse(format!("json: cannot unmarshal {kind} into Go value of type {item}")));
        };
        if mode == Mode::Lenient {
            continue;
        }
        for name in ["op", "path", "from"] {
            if let Some(value) = members.get(name).filter(|value| !matches!(value, Value::Str(_) | Value::Null)) {
                let kind = json_kind(value);
                return Err(refuse(format!(
                    "json: cannot unmarshal {kind} into Go struct field jsonPatchOp.{name} of type string"
                )));
            }
        }
    }
    Ok(operations)
}

/// Returns findings about members of operations that RFC 6902 does not define.
fn strange_members(operations: &[Value], mode: Mode) -> Vec<String> {
    if mode == Mode::Lenient {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let Value::Map(members) = operation else { continue };
        for (name, _) in members.iter().filter(|(name, _)| !matches!(*name, "op" | "path" | "from" | "value")) {
            found.push(format!("json patch unknown field \"[{i}].{name}\""));
        }
    }
    found
}

fn apply(doc: &mut Node, operation: &Value, used: &mut Used) -> Result<(), Refused> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = text("path").ok_or(Refused);
    match text("op").unwrap_or_default() {
        "add" => {
            let (path, value) = (path?, Node::Closed(value()));
            fits(path, &value, &mut 0)?;
            add(doc, path, value)
        }
        "remove" => remove(doc, path?).map(drop),
        "replace" => {
            let (path, value) = (path?, Node::Closed(value()));
            fits(path, &value, &mut 0)?;
            replace(doc, path, value)
        }
        "test" => test(doc, path?, operation.get("value")),
        "move" => {
            let from = text("from").ok_or(Refused)?;
            let moved = remove(doc, from)?;
            let path = path?;
            // No value is too deep before a move, so only a move further down can make one too deep.
            if depth_of(path) > depth_of(from) {
                fits(path, &moved, &mut used.measured)?;
                if used.measured > MAX_MEASURED {
                    return Err(Refused);
                }
            }
            add(doc, path, moved)
        }
        "copy" => {
            let from = text("from").ok_or(Refused)?;
            let path = path?;
            let (container, key) = find(doc, from).ok_or(Refused)?;
            let copy = match get(container, &key)? {
                Some(node) => {
                    // Checked before the copy is made: copying a value into its own deepest position doubles its depth.
                    fits(path, node, &mut 0)?;
                    node.copy()
                }
                None => Value::Null,
            };
            used.copied += size(&copy);
            if used.copied > MAX_COPIED {
                return Err(Refused);
            }
            add(doc, path, Node::Closed(copy))
        }
        _ => Err(Refused),
    }
}

/// Returns the number of lists and maps around the target of a pointer.
fn depth_of(pointer: &str) -> usize {
    memchr::memchr_iter(b'/', pointer.as_bytes()).count()
}

/// Checks that the document with `value` at `path` stays within the depth limit of decoders, because all code that walks a document recurses.
fn fits(path: &str, value: &Node, measured: &mut usize) -> Result<(), Refused> {
    let room = (MAX_DEPTH as usize).checked_sub(depth_of(path)).ok_or(Refused)?;
    if value.fits(room, measured) { Ok(()) } else { Err(Refused) }
}

fn size(value: &Value) -> usize {
    let mut out = Vec::new();
    json::encode_value(value, &mut out);
    out.len()
}

/// Returns the container that `pointer` leads into and the last, decoded step. Text before the first slash is ignored.
fn find<'a>(doc: &'a mut Node, pointer: &str) -> Option<(&'a mut Node, Str)> {
    let (_, steps) = pointer.split_once('/')?;
    let mut at = doc;
    let (parents, last) = match steps.rsplit_once('/') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, steps),
    };
    for step in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let step = unescape(step);
        at = match at.open() {
            Node::Map(map) => map.get_mut(&step)?,
            Node::List(items) => {
                let index = index(&step, items.len())?;
                items.get_mut(index)?
            }
            Node::Closed(_) => return None,
        };
    }
    let at = at.open();
    matches!(at, Node::Map(_) | Node::List(_)).then(|| (at, unescape(last)))
}

/// Returns the decoded steps of a pointer; none for the whole document.
pub(crate) fn steps(pointer: &str) -> impl Iterator<Item = Str> {
    pointer.split_once('/').into_iter().flat_map(|(_, steps)| steps.split('/')).map(unescape)
}

fn unescape(step: &str) -> Str {
    if step.contains('~') { Str::from(step.replace("~1", "/").replace("~0", "~")) } else { Str::new(step) }
}

/// Parses a list position; negative ones count from the end. `len` is the first position that does not exist.
fn index(step: &str, len: usize) -> Option<usize> {
    let at: i64 = step.parse().ok()?;
    let len = i64::try_from(len).ok()?;
    let at = if at < 0 { at + len } else { at };
    (0..len).contains(&at).then_some(at)?.try_into().ok()
}

/// Returns a member, if present; fails for a list position that does not exist.
fn get<'a>(container: &'a mut Node, key: &str) -> Result<Option<&'a mut Node>, Refused> {
    match container {
        Node::Map(map) => Ok(map.get_mut(key)),
        Node::List(items) => index(key, items.len()).and_then(|at| items.get_mut(at)).map(Some).ok_or(Refused),
        Node::Closed(_) => Err(Refused),
    }
}

fn add(doc: &mut Node, path: &str, value: Node) -> Result<(), Refused> {
    let (container, key) = find(doc, path).ok_or(Refused)?;
    match container {
        Node::Map(map) => {
            map.insert(key, value);
        }
        Node::List(items) if key == "-" => items.push(value),
        Node::List(items) => {
            let at = index(&key, items.len() + 1).ok_or(Refused)?;
            items.insert(at, value);
        }
        Node::Closed(_) => return Err(Refused),
    }
    Ok(())
}

fn remove(doc: &mut Node, path: &str) -> Result<Node, Refused> {
    let (container, key) = find(doc, path).ok_or(Refused)?;
    match container {
        Node::Map(map) => map.remove(&key).ok_or(Refused),
        Node::List(items) => index(&key, items.len()).and_then(|at| items.remove(at)).ok_or(Refused),
        Node::Closed(_) => Err(Refused),
    }
}

fn replace(doc: &mut Node, path: &str, value: Node) -> Result<(), Refused> {
    if path.is_empty() {
        if !matches!(value, Node::Closed(Value::Map(_) | Value::List(_))) {
            return Err(Refused);
        }
        *doc = value;
        return Ok(());
    }
    let (container, key) = find(doc, path).ok_or(Refused)?;
    match container {
        Node::Map(map) => {
            map.insert(key, value);
        }
        Node::List(items) => {
            let at = index(&key, items.len()).ok_or(Refused)?;
            *items.get_mut(at).ok_or(Refused)? = value;
        }
        Node::Closed(_) => return Err(Refused),
    }
    Ok(())
}

fn test(doc: &mut Node, path: &str, wanted: Option<&Value>) -> Result<(), Refused> {
    let wanted = wanted.unwrap_or(&Value::Null);
    let equal = if path.is_empty() {
        doc.same(wanted)
    } else {
        let (container, key) = find(doc, path).ok_or(Refused)?;
        get(container, &key)?.map_or_else(|| same(&Value::Null, wanted), |node| node.same(wanted))
    };
    if equal { Ok(()) } else { Err(Refused) }
}

/// Whether two values are equal as JSON; a missing document member and an explicit `null` are equal at the top only.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => same_maps(a, b),
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)),
        _ => a == b,
    }
}

fn same_maps(a: &Map, b: &Map) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
}

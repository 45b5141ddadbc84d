//! Writes the field set of a created object directly from the object into `fieldsV1`, without an intermediate set.
//!
//! The field set is the difference to the type's zero object. Every create computes the set, so the code does not allocate per field.

use oarlock_schema::{Obj, Struct, Value};
use smallvec::SmallVec;

use super::atom::{Atom, fields, is_empty, item_element, members, same, settle};
use super::element::{Element, write_declared_key, write_field_key};

/// Fields of the metadata that no manager ever owns.
pub(super) const SERVER_FIELDS: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The paths to leave out, by depth of the walk.
#[derive(Clone, Copy)]
enum Skip<'a> {
    Top(&'a [&'a str]),
    Below(&'a [&'a str], &'a str),
    Nothing,
}

impl<'a> Skip<'a> {
    fn drops(self, name: &str) -> bool {
        match self {
            Self::Top(reset) => matches!(name, "apiVersion" | "kind") || reset.contains(&name),
            Self::Below(reset, parent) => {
                (parent == "metadata" && SERVER_FIELDS.contains(&name))
                    || reset.iter().any(|path| is_path(path, parent, name))
            }
            Self::Nothing => false,
        }
    }

    fn inside(self, name: &'a str) -> Self {
        match self {
            Self::Top(reset) => Self::Below(reset, name),
            Self::Below(..) | Self::Nothing => Self::Nothing,
        }
    }
}

/// Whether `path` is `parent.name`.
fn is_path(path: &str, parent: &str, name: &str) -> bool {
    path.len() == parent.len() + 1 + name.len()
        && path.strip_prefix(parent).and_then(|rest| rest.strip_prefix('.')) == Some(name)
}

/// Returns the `fieldsV1` text of everything `obj` sets beyond its type's zero object; `None` for an empty set. `reset` are
/// the endpoint's reset fields: dotted paths, at most two names deep.
pub(super) fn fields_of_new(obj: &Obj, reset: &[&str]) -> Option<String> {
    let zero = Struct::zero(obj.ty());
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    let written = structure(Some(&zero), obj, Skip::Top(reset), false, &mut out);
    out.push(b'}');
    if written { String::from_utf8(out).ok() } else { None }
}

/// Writes the fields of a struct, with a leading comma if `comma`. Returns whether the output now has any field.
fn structure(old: Option<&Struct>, new: &Struct, skip: Skip<'_>, comma: bool, out: &mut Vec<u8>) -> bool {
    let mut written = comma;
    for (id, def, value) in fields(new) {
        if !skip.drops(def.name) {
            let old = old.and_then(|old| old.field(id));
            let key = |out: &mut Vec<u8>| write_declared_key(def, out);
            written |= member(key, old, value, Atom::of_field(def), skip.inside(def.name), written, out);
        }
    }
    written
}

/// Writes `"f:name":…` if the member has owned fields; `key` writes the name with the colon. Returns whether the member was written.
fn member(
    key: impl FnOnce(&mut Vec<u8>),
    old: Option<&Value>,
    new: &Value,
    atom: Atom,
    skip: Skip<'_>,
    comma: bool,
    out: &mut Vec<u8>,
) -> bool {
    let mark = out.len();
    if comma {
        out.push(b',');
    }
    key(out);
    let written = body(old, new, atom, skip, out);
    if !written {
        out.truncate(mark);
    }
    written
}

fn body(old: Option<&Value>, new: &Value, atom: Atom, skip: Skip<'_>, out: &mut Vec<u8>) -> bool {
    let atom = settle(atom, old, Some(new));
    if matches!(atom, Atom::Leaf) || (is_empty(old) && is_empty(Some(new))) {
        out.extend_from_slice(b"{}");
        return old.is_none_or(|old| !same(old, new));
    }
    out.push(b'{');
    let mut written = old.is_none();
    if written {
        out.extend_from_slice(b"\".\":{}");
    }
    let bare = out.len();
    match atom {
        Atom::Keyed(..) | Atom::Set => written |= items(new, atom, written, out),
        Atom::Struct(ty) if new.as_struct().is_some_and(|node| std::ptr::eq(node.ty(), ty)) => {
            if let Some(new) = new.as_struct() {
                written = structure(old.and_then(Value::as_struct), new, skip, written, out);
            }
        }
        _ => {
            for (name, value) in members(Some(new)) {
                if !skip.drops(name) {
                    let old = old.and_then(|old| old.get(name));
                    let key = |out: &mut Vec<u8>| {
                        write_field_key(name, out);
                        out.push(b':');
                    };
                    written |= member(key, old, value, atom.member(name), skip.inside(name), written, out);
                }
            }
        }
    }
    if old.is_none() && out.len() == bare {
        // A member without children is written as `{}`.
        out.truncate(bare.saturating_sub(6));
    }
    out.push(b'}');
    written
}

fn items(list: &Value, atom: Atom, mut comma: bool, out: &mut Vec<u8>) -> bool {
    let mut named: SmallVec<[(Element, &Value); 4]> =
        list.items().iter().filter_map(|item| Some((item_element(item, atom).ok()?, item))).collect();
    named.sort_by(|(a, _), (b, _)| a.order(b));
    let mut written = false;
    let mut rest = named.iter().peekable();
    while let Some((element, item)) = rest.next() {
        if std::mem::replace(&mut comma, true) {
            out.push(b',');
        }
        element.write_key(out);
        out.push(b':');
        // Duplicate items are owned as one.
        let mut duplicate = false;
        while rest.next_if(|(next, _)| next.order(element).is_eq()).is_some() {
            duplicate = true;
        }
        if duplicate {
            out.extend_from_slice(b"{}");
        } else {
            body(None, item, atom.item(), Skip::Nothing, out);
        }
        written = true;
    }
    written
}

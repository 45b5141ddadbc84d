//! Computes the field set of an applied configuration (upstream `typed.ToFieldSet`): everything that the configuration states, empty values included.

use oarlock_schema::Value;

use super::atom::{Atom, item_element, members, settle};
use super::element::Element;
use super::set::{FieldSet, Node};

/// Returns the set of the fields that `value` states. The set contains map entries and list items, but not the structs and lists around them.
pub(super) fn field_set(value: &Value, atom: Atom) -> FieldSet {
    node(value, atom).children
}

fn node(value: &Value, atom: Atom) -> Node {
    match settle(atom, None, Some(value)) {
        Atom::Leaf => Node::leaf(),
        atom @ (Atom::Keyed(..) | Atom::Set) => {
            let named = value.items().iter().filter_map(|item| Some((item_element(item, atom).ok()?, item)));
            let nodes = named.map(|(element, item)| {
                let mut child = node(item, atom.item());
                child.member = true;
                (element, child)
            });
            Node { member: false, children: FieldSet::of_nodes(nodes.collect()) }
        }
        atom => {
            let mut out = Node::default();
            for (name, value) in members(Some(value)) {
                let mut child = node(value, atom.member(name));
                let empty_map = match value {
                    Value::Map(map) => map.is_empty(),
                    Value::Struct(node) => node.is_empty(),
                    other => other.is_null(),
                };
                child.member |= empty_map || !atom.declares(name);
                out.children.put(Element::Field(name.into()), child);
            }
            out
        }
    }
}

/// Adds every declared field with descendants in the set to the set (upstream `EnsureNamedFieldsAreMembers`), so that removing a field removes the whole
/// field.
pub(super) fn with_named_fields(set: &FieldSet, atom: Atom) -> FieldSet {
    let mut out = FieldSet::default();
    for (element, node) in set.nodes() {
        let (inner, named) = match element {
            Element::Field(name) => (atom.member(name), atom.declares(name) && !node.children.is_empty()),
            _ => (atom.item(), false),
        };
        let children = with_named_fields(&node.children, inner);
        out.put(element.clone(), Node { member: node.member || named, children });
    }
    out
}

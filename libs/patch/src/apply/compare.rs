//! Compares two objects and returns the differences as three field sets (upstream `typed.Compare`).

use oarlock_schema::{Struct, TypeRef, Value};
use smallvec::SmallVec;

use super::atom::{Atom, fields, is_empty, item_element, members, same, settle};
use super::element::Element;
use super::set::{FieldSet, Node};

/// The difference between two objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Paths that only the old object has.
    pub removed: FieldSet,
    /// Paths that both objects have with different values.
    pub modified: FieldSet,
    /// Paths that only the new object has.
    pub added: FieldSet,
}

impl Comparison {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Returns the same difference without these paths and all paths below them.
    #[must_use]
    pub fn without(self, paths: &FieldSet) -> Self {
        if paths.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.without(paths),
            modified: self.modified.without(paths),
            added: self.added.without(paths),
        }
    }
}

#[derive(Default)]
struct Spot {
    removed: Node,
    modified: Node,
    added: Node,
}

impl Spot {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }
}

/// Compares two objects of one type, each a struct or its generic form.
pub(super) fn compare(old: &Value, new: &Value, atom: Atom) -> Comparison {
    let spot = walk(Some(old), Some(new), atom);
    Comparison { removed: spot.removed.children, modified: spot.modified.children, added: spot.added.children }
}

/// Compares two typed objects.
#[must_use]
pub fn compare_structs(old: &Struct, new: &Struct) -> Comparison {
    let mut top = Spot::default();
    structs(&mut top, Some(old), Some(new));
    Comparison { removed: top.removed.children, modified: top.modified.children, added: top.added.children }
}

/// Compares two structs of one type field by field.
fn structs(spot: &mut Spot, old: Option<&Struct>, new: Option<&Struct>) {
    let (left, right) = (old.map(fields).unwrap_or_default(), new.map(fields).unwrap_or_default());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, x, _)), Some((b, y, _))) if a != b => x.name.cmp(y.name),
            _ => std::cmp::Ordering::Equal,
        };
        let l = if order.is_le() { left.next() } else { None };
        let r = if order.is_ge() { right.next() } else { None };
        let Some((_, def, _)) = l.or(r) else { return };
        let child = walk(l.map(|(_, _, value)| *value), r.map(|(_, _, value)| *value), Atom::of_field(def));
        attach(spot, def.name, child);
    }
}

type Members<'a> = SmallVec<[(&'a str, &'a Value); 16]>;

/// Visits the members of both sides by name.
pub(super) fn zip<'a>(
    left: &Members<'a>,
    right: &Members<'a>,
    mut visit: impl FnMut(&str, Option<&'a Value>, Option<&'a Value>),
) {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let name = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some((a, _)), None) => *a,
            (None, Some((b, _))) => *b,
            (Some((a, _)), Some((b, _))) => *a.min(b),
        };
        let l = left.next_if(|(have, _)| *have == name).map(|(_, value)| *value);
        let r = right.next_if(|(have, _)| *have == name).map(|(_, value)| *value);
        visit(name, l, r);
    }
}

fn leaf(left: Option<&Value>, right: Option<&Value>) -> Spot {
    let mut spot = Spot::default();
    match (left, right) {
        (None, Some(_)) => spot.added.member = true,
        (Some(_), None) => spot.removed.member = true,
        (Some(a), Some(b)) if !same(a, b) => spot.modified.member = true,
        _ => {}
    }
    spot
}

fn attach(parent: &mut Spot, name: &str, child: Spot) {
    if !child.is_empty() {
        attach_element(parent, Element::Field(name.into()), child);
    }
}

fn attach_element(parent: &mut Spot, element: Element, child: Spot) {
    let Spot { removed, modified, added } = child;
    parent.removed.children.put(element.clone(), removed);
    parent.modified.children.put(element.clone(), modified);
    parent.added.children.put(element, added);
}

fn walk(left: Option<&Value>, right: Option<&Value>, atom: Atom) -> Spot {
    let atom = settle(atom, left, right);
    // An unchanged value needs no further comparison; most of an update is unchanged.
    if matches!(atom, Atom::Leaf)
        || (is_empty(left) && is_empty(right))
        || matches!((left, right), (Some(a), Some(b)) if a == b)
    {
        return leaf(left, right);
    }
    let mut spot = Spot::default();
    match atom {
        Atom::Keyed(..) | Atom::Set => items(&mut spot, left, right, atom),
        Atom::Struct(ty) if typed(left, ty) && typed(right, ty) => {
            structs(&mut spot, left.and_then(Value::as_struct), right.and_then(Value::as_struct));
        }
        _ => zip(&members(left), &members(right), |name, left, right| {
            attach(&mut spot, name, walk(left, right, atom.member(name)));
        }),
    }
    spot.added.member |= left.is_none();
    spot.removed.member |= right.is_none();
    spot
}

fn typed(value: Option<&Value>, ty: TypeRef) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Struct(node)) => std::ptr::eq(node.ty(), ty),
        Some(_) => false,
    }
}

type Named<'a> = Vec<(Element, SmallVec<[&'a Value; 1]>)>;

/// Returns the items of a list with their elements, sorted; items with equal elements stay in order. Items that cannot be identified are left out.
fn by_name(list: Option<&Value>, atom: Atom) -> Named<'_> {
    let items = list.map_or(&[][..], Value::items);
    let mut named: Vec<(Element, &Value)> =
        items.iter().filter_map(|item| Some((item_element(item, atom).ok()?, item))).collect();
    named.sort_by(|(a, _), (b, _)| a.order(b));
    let mut out: Named<'_> = Vec::with_capacity(named.len());
    for (element, item) in named {
        match out.last_mut() {
            Some((last, items)) if last.order(&element).is_eq() => items.push(item),
            _ => out.push((element, SmallVec::from_iter([item]))),
        }
    }
    out
}

fn items(spot: &mut Spot, left: Option<&Value>, right: Option<&Value>, atom: Atom) {
    let (left, right) = (by_name(left, atom), by_name(right, atom));
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.order(b),
        };
        let l = if order.is_le() { left.next() } else { None };
        let r = if order.is_ge() { right.next() } else { None };
        let Some((element, _)) = l.or(r) else { return };
        let l = l.map_or(&[][..], |(_, items)| items.as_slice());
        let r = r.map_or(&[][..], |(_, items)| items.as_slice());
        let child = item(l, r, atom);
        if !child.is_empty() {
            attach_element(spot, element.clone(), child);
        }
    }
}

/// Compares the items with one element. Duplicates are compared as one value.
fn item(left: &[&Value], right: &[&Value], atom: Atom) -> Spot {
    match (left, right) {
        ([] | [_], [] | [_]) => walk(left.first().copied(), right.first().copied(), atom.item()),
        ([_, _, ..], [_, _, ..]) => {
            let mut spot = Spot::default();
            spot.modified.member = left.len() != right.len() || left.iter().zip(right).any(|(a, b)| !same(a, b));
            spot
        }
        ([_, _, ..], _) => {
            let mut spot = right.first().map_or_else(Spot::default, |one| walk(None, Some(one), atom.item()));
            spot.removed.member = true;
            spot
        }
        (_, [_, _, ..]) => {
            let mut spot = left.first().map_or_else(Spot::default, |one| walk(Some(one), None, atom.item()));
            spot.added.member = true;
            spot
        }
    }
}

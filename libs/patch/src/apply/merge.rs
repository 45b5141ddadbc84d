//! Merges an applied configuration into the live object (upstream `typed.Merge`).

use std::cmp::Ordering;

use oarlock_codec::tree::untype_value;
use oarlock_schema::{Map, Value};

use super::atom::{Atom, is_empty, item_element, members, settle};
use super::compare::zip;
use super::element::Element;

/// Returns the live value overlaid with the configuration, in generic form. `None` when the result has no content.
pub(super) fn merge(live: Option<&Value>, config: Option<&Value>, atom: Atom) -> Option<Value> {
    let keep = |value: &Value| untype_value(value);
    let atom = settle(atom, live, config);
    if matches!(atom, Atom::Leaf) || (is_empty(live) && is_empty(config)) {
        return config.or(live).map(keep);
    }
    match atom {
        Atom::Keyed(..) | Atom::Set => {
            let merged = merge_lists(live, config, atom);
            (!merged.is_empty()).then(|| Value::List(merged.into_iter().collect()))
        }
        _ => {
            let mut out = Map::default();
            zip(&members(live), &members(config), |name, live, config| {
                if let Some(merged) = merge(live, config, atom.member(name)) {
                    out.insert(name, merged);
                }
            });
            (!out.is_empty()).then_some(Value::Map(out))
        }
    }
}

/// The items of a list with their elements, and an index of the positions.
struct Named<'a> {
    items: Vec<(Element, &'a Value)>,
    /// Positions, sorted by element and then by position.
    order: Vec<usize>,
}

impl<'a> Named<'a> {
    fn new(list: Option<&'a Value>, atom: Atom) -> Self {
        let items: Vec<(Element, &Value)> = list
            .map_or(&[][..], Value::items)
            .iter()
            .filter_map(|item| Some((item_element(item, atom).ok()?, item)))
            .collect();
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by(|a, b| match (items.get(*a), items.get(*b)) {
            (Some((a, _)), Some((b, _))) => a.order(b),
            _ => Ordering::Equal,
        });
        Self { items, order }
    }

    fn compare(&self, at: usize, wanted: &Element) -> Ordering {
        self.items.get(at).map_or(Ordering::Greater, |(element, _)| element.order(wanted))
    }

    /// Returns the first position of an element.
    fn find(&self, wanted: &Element) -> Option<usize> {
        let at = self.order.partition_point(|at| self.compare(*at, wanted).is_lt());
        self.order.get(at).copied().filter(|at| self.compare(*at, wanted).is_eq())
    }

    /// Whether the element at position `first` occurs again.
    fn twice(&self, first: usize) -> bool {
        let Some((element, _)) = self.items.get(first) else { return false };
        let at = self.order.partition_point(|at| self.compare(*at, element).is_lt());
        self.order.get(at + 1).is_some_and(|next| self.compare(*next, element).is_eq())
    }
}

/// Merges two lists. Items of the live list that the configuration does not contain keep their position; items of the configuration come in its order,
/// placed where the two orders agree. Duplicates in the live list are replaced by the configured item.
fn merge_lists(live: Option<&Value>, config: Option<&Value>, atom: Atom) -> Vec<Value> {
    let (left, right) = (Named::new(live, atom), Named::new(config, atom));
    let in_right: Vec<Option<usize>> = left.items.iter().map(|(element, _)| right.find(element)).collect();
    let in_left: Vec<Option<usize>> = right.items.iter().map(|(element, _)| left.find(element)).collect();
    let (left_len, right_len) = (left.items.len(), right.items.len());
    let mut shared = (0..right_len).filter(|r| in_left.get(*r).copied().flatten().is_some());
    let mut next_shared = shared.next();
    let mut done = vec![false; right_len];
    let mut out = Vec::with_capacity(left_len.max(right_len));
    let both = |out: &mut Vec<Value>, r: usize| {
        let Some((_, item)) = right.items.get(r) else { return };
        // A duplicate has no single live item to merge with.
        let old = in_left.get(r).copied().flatten().filter(|l| !left.twice(*l)).and_then(|l| left.items.get(l));
        out.extend(merge(old.map(|(_, item)| *item), Some(*item), atom.item()));
    };
    let (mut l, mut r) = (0, 0);
    while l < left_len || r < right_len {
        let other = in_right.get(l).copied().flatten();
        if l < left_len && r < right_len {
            if other == Some(r) {
                both(&mut out, r);
                if let Some(done) = done.get_mut(r) {
                    *done = true;
                }
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            // A shared item that comes later in the configuration moves to its configured position.
            if other.is_some() && next_shared.is_some() && other != next_shared {
                l += 1;
                continue;
            }
        }
        if let Some((_, item)) = left.items.get(l) {
            match other {
                None => {
                    out.extend(merge(Some(*item), None, atom.item()));
                    l += 1;
                    continue;
                }
                Some(at) if done.get(at).copied().unwrap_or_default() => l += 1,
                Some(_) => {}
            }
        }
        if r < right_len {
            both(&mut out, r);
            if let Some(done) = done.get_mut(r) {
                *done = true;
            }
            if next_shared == Some(r) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    out
}

//! Field sets: tries of path elements. A node is a member itself (`"."` in `fieldsV1`), has children, or both.

use std::cmp::Ordering;
use std::fmt;

use super::element::Element;

/// A set of paths, sorted by element at every level.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldSet {
    nodes: Vec<(Element, Node)>,
}

/// The content of a set at one element. Never empty inside a set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// Whether the path that ends at this element is in the set.
    pub member: bool,
    /// The longer paths, below this element.
    pub children: FieldSet,
}

impl Node {
    /// Makes a node whose path ends at the element.
    #[must_use]
    pub fn leaf() -> Self {
        Self { member: true, children: FieldSet::default() }
    }

    /// Whether neither this path nor a longer one is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// Whether the set has no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = (&Element, &Node)> {
        self.nodes.iter().map(|(element, node)| (element, node))
    }

    fn find(&self, element: &Element) -> Result<usize, usize> {
        self.nodes.binary_search_by(|(have, _)| have.order(element))
    }

    /// Returns the node of an element.
    #[must_use]
    pub fn get(&self, element: &Element) -> Option<&Node> {
        self.find(element).ok().and_then(|at| self.nodes.get(at)).map(|(_, node)| node)
    }

    /// Returns the node of a field name, without allocating.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|(have, _)| match have {
            Element::Field(have) => have.as_str().cmp(name),
            _ => Ordering::Greater,
        });
        at.ok().and_then(|at| self.nodes.get(at)).map(|(_, node)| node)
    }

    /// Adds a node, united with a node that is already present. Empty nodes are left out.
    pub fn put(&mut self, element: Element, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.nodes.last() {
            Some((last, _)) if last.order(&element).is_ge() => {}
            _ => return self.nodes.push((element, node)),
        }
        match self.find(&element) {
            Ok(at) => {
                if let Some((_, old)) = self.nodes.get_mut(at) {
                    old.member |= node.member;
                    old.children = old.children.union(&node.children);
                }
            }
            Err(at) => self.nodes.insert(at, (element, node)),
        }
    }

    /// Makes a set of nodes in any order; nodes with the same element are united. The nodes are sorted once, since each insertion into a sorted list would move all
    /// that follow.
    #[must_use]
    pub fn of_nodes(mut nodes: Vec<(Element, Node)>) -> Self {
        nodes.retain(|(_, node)| !node.is_empty());
        let sorted = nodes.iter().zip(nodes.iter().skip(1)).all(|((a, _), (b, _))| a.order(b).is_lt());
        if sorted {
            return Self { nodes };
        }
        nodes.sort_by(|(a, _), (b, _)| a.order(b));
        let mut out: Vec<(Element, Node)> = Vec::with_capacity(nodes.len());
        let mut rest = nodes.into_iter().peekable();
        while let Some((element, mut node)) = rest.next() {
            let mut same = Vec::new();
            while let Some((_, next)) = rest.next_if(|(next, _)| next.order(&element).is_eq()) {
                node.member |= next.member;
                same.push(next.children);
            }
            if !same.is_empty() {
                same.push(std::mem::take(&mut node.children));
                node.children = Self::union_of(same);
            }
            out.push((element, node));
        }
        Self { nodes: out }
    }

    /// Returns the union of sets. Sets are united in pairs, the results again in pairs and so on, so that each path is copied only a logarithmic number of times.
    #[must_use]
    pub fn union_of(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let mut rest = sets.into_iter();
            let mut next = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(one) = rest.next() {
                next.push(match rest.next() {
                    Some(other) => one.union(&other),
                    None => one,
                });
            }
            sets = next;
        }
        sets.pop().unwrap_or_default()
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let mut node = Node::default();
        if rest.is_empty() {
            node.member = true
        } else {
            node.children.insert(rest)
        }
        self.put(first.clone(), node);
    }

    /// Makes a set of dotted field paths, such as `metadata.labels`.
    #[must_use]
    pub fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.split('.').map(|name| Element::Field(name.into())).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether the path is in the set.
    #[must_use]
    pub fn has(&self, path: &[Element]) -> bool {
        match path.split_first() {
            None => false,
            Some((first, rest)) => {
                self.get(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has(rest) })
            }
        }
    }

    /// Calls `visit` with every path in upstream's order: at each level first the paths that end at that level.
    pub fn paths(&self, visit: &mut impl FnMut(&[Element])) {
        self.paths_below(&mut Vec::new(), visit);
    }

    fn paths_below(&self, prefix: &mut Vec<Element>, visit: &mut impl FnMut(&[Element])) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            prefix.push(element.clone());
            visit(prefix);
            prefix.pop();
        }
        for (element, node) in self.nodes.iter().filter(|(_, node)| !node.children.is_empty()) {
            prefix.push(element.clone());
            node.children.paths_below(prefix, visit);
            prefix.pop();
        }
    }

    /// Walks both sets in step and keeps the results of `keep` for each pair of nodes.
    fn zip(&self, other: &Self, keep: &impl Fn(Option<&Node>, Option<&Node>) -> Node) -> Self {
        let mut out = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.order(b),
            };
            let a = if order.is_le() { left.next() } else { None };
            let b = if order.is_ge() { right.next() } else { None };
            let Some((element, _)) = a.or(b) else { break };
            let node = keep(a.map(|(_, node)| node), b.map(|(_, node)| node));
            if !node.is_empty() {
                out.push((element.clone(), node));
            }
        }
        Self { nodes: out }
    }

    /// Returns the paths of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        self.zip(other, &|a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member || b.member, children: a.children.union(&b.children) },
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => Node::default(),
        })
    }

    /// Returns the paths of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (self_, other) = if other.nodes.len() < self.nodes.len() { (other, self) } else { (self, other) };
        if self_.much_smaller(other) {
            return self_.look_up(other, &|a, b| match b {
                Some(b) => Node { member: a.member && b.member, children: a.children.intersection(&b.children) },
                None => Node::default(),
            });
        }
        self_.zip(other, &|a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member && b.member, children: a.children.intersection(&b.children) },
            _ => Node::default(),
        })
    }

    /// Whether looking up each of this set's nodes in the other set is cheaper than walking both sets. Where many managers share an object, many small sets meet
    /// one large set.
    fn much_smaller(&self, other: &Self) -> bool {
        let steps = usize::BITS - other.nodes.len().leading_zeros();
        self.nodes.len().saturating_mul(steps as usize) < other.nodes.len()
    }

    /// Looks up each node in the other set and keeps the results of `keep` for each pair.
    fn look_up(&self, other: &Self, keep: &impl Fn(&Node, Option<&Node>) -> Node) -> Self {
        let kept = self.nodes.iter().map(|(element, node)| (element, keep(node, other.get(element))));
        Self {
            nodes: kept.filter(|(_, node)| !node.is_empty()).map(|(element, node)| (element.clone(), node)).collect(),
        }
    }

    /// Returns the paths of this set that are not in the other one.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.much_smaller(other) {
            return self.look_up(other, &|a, b| match b {
                Some(b) => Node { member: a.member && !b.member, children: a.children.difference(&b.children) },
                None => a.clone(),
            });
        }
        self.zip(other, &|a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member && !b.member, children: a.children.difference(&b.children) },
            (Some(a), None) => a.clone(),
            (None, _) => Node::default(),
        })
    }

    /// Returns the paths of this set that neither are in the other one nor lie below one of its paths.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.zip(other, &|a, b| match (a, b) {
            (Some(_), Some(b)) if b.member => Node::default(),
            (Some(a), Some(b)) => Node { member: a.member, children: a.children.without(&b.children) },
            (Some(a), None) => a.clone(),
            (None, _) => Node::default(),
        })
    }

    /// Whether the sets share a path.
    #[must_use]
    pub fn touches(&self, other: &Self) -> bool {
        if self.much_smaller(other) {
            let both = |(element, node): &(Element, Node)| {
                other
                    .get(element)
                    .is_some_and(|there| (node.member && there.member) || node.children.touches(&there.children))
            };
            return self.nodes.iter().any(both);
        }
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        while let (Some((a, here)), Some((b, there))) = (left.peek(), right.peek()) {
            match a.order(b) {
                Ordering::Less => {
                    left.next();
                }
                Ordering::Greater => {
                    right.next();
                }
                Ordering::Equal => {
                    if (here.member && there.member) || here.children.touches(&there.children) {
                        return true;
                    }
                    left.next();
                    right.next();
                }
            }
        }
        false
    }
}

/// Prints one path a line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.paths(&mut |path| lines.push(path_text(path)));
        f.write_str(&lines.join("\n"))
    }
}

/// Returns a path in the form of conflict messages: `.spec.containers[name="a"].image`.
#[must_use]
pub fn path_text(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

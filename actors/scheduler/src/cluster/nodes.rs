//! Node state in columns, which vectorised filters and scores read and every event changes in place.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bits::BitSet;
use crate::column::{Column, NodeIx};
use crate::intern::{Interner, Res, Sym};
use crate::labels::{Op, Requirement};
use crate::map::Map;
use crate::model::{Effect, HostPort, NodeInfo, NodeTerm, PodSpec, Protocol, Taint};

/// Number of members beyond which a set of nodes is stored as bits.
const SPARSE_LIMIT: usize = 16;

/// A set of nodes that is small for most label values (host names) and large for some (zones).
#[derive(Clone, Debug)]
enum NodeSet {
    Few(Vec<NodeIx>),
    Many(BitSet),
}

impl NodeSet {
    fn insert(&mut self, node: NodeIx) {
        match self {
            Self::Few(nodes) if nodes.len() < SPARSE_LIMIT => {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
            Self::Few(nodes) => {
                let mut bits = BitSet::default();
                for member in nodes.drain(..) {
                    bits.insert(member);
                }
                bits.insert(node);
                *self = Self::Many(bits);
            }
            Self::Many(bits) => bits.insert(node),
        }
    }

    fn remove(&mut self, node: NodeIx) {
        match self {
            Self::Few(nodes) => nodes.retain(|member| *member != node),
            Self::Many(bits) => bits.remove(node),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(nodes) => nodes.is_empty(),
            Self::Many(bits) => bits.is_empty(),
        }
    }

    fn add_to(&self, out: &mut BitSet) {
        match self {
            Self::Few(nodes) => nodes.iter().for_each(|node| out.insert(*node)),
            Self::Many(bits) => out.union_with(bits),
        }
    }
}

/// Which nodes have a label key, and with which value.
#[derive(Default)]
struct KeyIndex {
    present: BitSet,
    values: BTreeMap<Sym, NodeSet>,
}

/// A distinct taint and the nodes that carry it.
pub(crate) struct TaintRow {
    /// The taint.
    pub(crate) taint: Taint,
    /// The nodes that carry the taint.
    pub(crate) nodes: BitSet,
    /// Number of nodes that carry the taint.
    pub(crate) count: usize,
}

/// An image and the nodes that have it.
#[derive(Default)]
pub(crate) struct ImageRow {
    /// The image's size in bytes, as the first node reported it.
    pub(crate) size: i64,
    /// The nodes that have the image.
    pub(crate) nodes: BitSet,
    /// Number of nodes that have the image.
    pub(crate) count: i64,
}

/// The state of all nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    by_name: Map<Sym, NodeIx>,
    free: Vec<NodeIx>,
    infos: Vec<Option<Arc<NodeInfo>>>,
    /// Slots that hold a node.
    pub(crate) live: BitSet,
    /// Number of slots that hold a node.
    pub(crate) count: usize,
    /// Nodes with `spec.unschedulable`.
    pub(crate) unschedulable: BitSet,
    allocatable: Vec<Column<i64>>,
    requested: Vec<Column<i64>>,
    /// The node's allocatable pods; 0 in an empty slot.
    pub(crate) pod_limit: Column<i64>,
    /// Number of pods on the node, assumed ones included.
    pub(crate) pod_count: Column<i64>,
    /// Allocatable cpu and memory as floats, for divisions without conversions.
    pub(crate) capacity: [Column<f64>; 2],
    /// Requested cpu and memory as floats.
    pub(crate) used: [Column<f64>; 2],
    /// Requested cpu and memory with the defaults for containers without requests, as floats.
    pub(crate) nonzero: [Column<f64>; 2],
    labels: Map<Sym, KeyIndex>,
    taint_ids: Map<Taint, usize>,
    taints: Vec<TaintRow>,
    ports: Map<(Protocol, u16), BTreeMap<(NodeIx, Sym), u32>>,
    images: Map<Sym, ImageRow>,
    /// Counts changes that move every node's image score: images, and the number of nodes.
    pub(crate) image_changes: u64,
}

/// Returns the column of a resource. All columns have one value per slot, so that loops run over slices of equal length.
fn column(columns: &mut Vec<Column<i64>>, resource: Res, slots: usize) -> Option<&mut Column<i64>> {
    if columns.len() <= resource.index() {
        columns.resize_with(resource.index() + 1, || {
            let mut fresh = Column::default();
            fresh.ensure(slots);
            fresh
        });
    }
    columns.get_mut(resource.index())
}

impl Nodes {
    /// Returns the slot of a node.
    pub(crate) fn find(&self, name: Sym) -> Option<NodeIx> {
        self.by_name.get(&name).copied()
    }

    /// Returns the node in a slot.
    pub(crate) fn info(&self, node: NodeIx) -> Option<&Arc<NodeInfo>> {
        self.infos.get(node.at()).and_then(Option::as_ref)
    }

    /// Returns the name of the node in a slot; the empty string for an empty slot.
    pub(crate) fn name(&self, node: NodeIx) -> Sym {
        self.info(node).map_or(Sym::EMPTY, |info| info.name)
    }

    /// Returns the number of slots in use or once used: the length of every column.
    pub(crate) fn slots(&self) -> usize {
        self.infos.len()
    }

    /// Returns the slot for a name, new or known. The caller fills the slot with [`Nodes::replace`].
    pub(crate) fn slot_for(&mut self, name: Sym) -> NodeIx {
        if let Some(node) = self.find(name) {
            return node;
        }
        let node = self.free.pop().unwrap_or_else(|| {
            let node = NodeIx(u32::try_from(self.infos.len()).unwrap_or(u32::MAX));
            self.infos.push(None);
            node
        });
        self.by_name.insert(name, node);
        let slots = self.infos.len();
        for column in self.allocatable.iter_mut().chain(&mut self.requested) {
            column.ensure(slots);
        }
        self.pod_limit.ensure(slots);
        self.pod_count.ensure(slots);
        for floats in self.capacity.iter_mut().chain(&mut self.used).chain(&mut self.nonzero) {
            floats.ensure(slots);
        }
        node
    }

    /// Puts a node (or nothing) into a slot and updates every index.
    pub(crate) fn replace(&mut self, node: NodeIx, info: Option<Arc<NodeInfo>>) {
        let old = self.infos.get_mut(node.at()).and_then(Option::take);
        if let Some(old) = &old {
            self.unindex(node, old, info.as_deref());
        }
        match info {
            Some(info) => {
                if old.is_none() {
                    self.count += 1;
                    self.image_changes += 1;
                }
                self.index(node, &info, old.as_deref());
                if let Some(slot) = self.infos.get_mut(node.at()) {
                    *slot = Some(info);
                }
            }
            None => {
                if let Some(old) = old {
                    self.count -= 1;
                    self.image_changes += 1;
                    self.by_name.remove(&old.name);
                    self.free.push(node);
                }
            }
        }
    }

    fn unindex(&mut self, node: NodeIx, old: &NodeInfo, new: Option<&NodeInfo>) {
        let slots = self.infos.len();
        self.live.remove(node);
        self.unschedulable.remove(node);
        for (resource, _) in &old.allocatable {
            if let Some(values) = column(&mut self.allocatable, *resource, slots) {
                values.set(node, 0);
            }
        }
        self.pod_limit.set(node, 0);
        if new.is_none_or(|new| new.labels != old.labels) {
            for (key, value) in old.labels.iter() {
                let Some(index) = self.labels.get_mut(&key) else { continue };
                index.present.remove(node);
                if let Some(nodes) = index.values.get_mut(&value) {
                    nodes.remove(node);
                    if nodes.is_empty() {
                        index.values.remove(&value);
                    }
                }
            }
        }
        if new.is_none_or(|new| new.taints != old.taints) {
            for taint in &old.taints {
                if let Some(row) = self.taint_ids.get(taint).and_then(|id| self.taints.get_mut(*id))
                    && row.nodes.contains(node)
                {
                    row.nodes.remove(node);
                    row.count -= 1;
                }
            }
        }
        if new.is_none_or(|new| new.images != old.images) {
            self.image_changes += 1;
            for (image, _) in &old.images {
                let Some(row) = self.images.get_mut(image) else { continue };
                if row.nodes.contains(node) {
                    row.nodes.remove(node);
                    row.count -= 1;
                }
                if row.count == 0 {
                    self.images.remove(image);
                }
            }
        }
    }

    fn index(&mut self, node: NodeIx, info: &NodeInfo, old: Option<&NodeInfo>) {
        let slots = self.infos.len();
        self.live.insert(node);
        self.unschedulable.set(node, info.unschedulable);
        for (resource, amount) in &info.allocatable {
            if let Some(values) = column(&mut self.allocatable, *resource, slots) {
                values.set(node, *amount);
            }
        }
        self.pod_limit.set(node, info.pods);
        for (floats, resource) in self.capacity.iter_mut().zip([Res::CPU, Res::MEMORY]) {
            floats.set(node, info.allocatable(resource) as f64);
        }
        if old.is_none_or(|old| old.labels != info.labels) {
            for (key, value) in info.labels.iter() {
                let index = self.labels.entry(key).or_default();
                index.present.insert(node);
                index.values.entry(value).or_insert_with(|| NodeSet::Few(Vec::new())).insert(node);
            }
        }
        if old.is_none_or(|old| old.taints != info.taints) {
            for taint in &info.taints {
                let next = self.taints.len();
                let id = *self.taint_ids.entry(*taint).or_insert(next);
                if id == next {
                    self.taints.push(TaintRow { taint: *taint, nodes: BitSet::default(), count: 0 });
                }
                if let Some(row) = self.taints.get_mut(id)
                    && !row.nodes.contains(node)
                {
                    row.nodes.insert(node);
                    row.count += 1;
                }
            }
        }
        if old.is_none_or(|old| old.images != info.images) {
            self.image_changes += 1;
            for (image, size) in &info.images {
                let row = self.images.entry(*image).or_default();
                if row.count == 0 {
                    row.size = *size;
                }
                if !row.nodes.contains(node) {
                    row.nodes.insert(node);
                    row.count += 1;
                }
            }
        }
    }

    /// Adds (`sign` 1) or subtracts (`sign` -1) a pod's usage of its node.
    pub(crate) fn charge(&mut self, node: NodeIx, spec: &PodSpec, sign: i64) {
        let slots = self.infos.len();
        for (resource, amount) in &spec.requests {
            if let Some(values) = column(&mut self.requested, *resource, slots) {
                values.update(node, |used| used + sign * amount);
            }
        }
        self.pod_count.update(node, |count| count + sign);
        for (floats, resource) in self.used.iter_mut().zip([Res::CPU, Res::MEMORY]) {
            let amount = (sign * spec.request(resource)) as f64;
            floats.update(node, |used| used + amount);
        }
        for (floats, amount) in self.nonzero.iter_mut().zip(spec.nonzero) {
            let amount = (sign * amount) as f64;
            floats.update(node, |used| used + amount);
        }
        for port in &spec.ports {
            let users = self.ports.entry((port.protocol, port.port)).or_default();
            if sign > 0 {
                *users.entry((node, port.address)).or_default() += 1;
            } else if let Some(count) = users.get_mut(&(node, port.address)) {
                *count -= 1;
                if *count == 0 {
                    users.remove(&(node, port.address));
                }
            }
            if users.is_empty() {
                self.ports.remove(&(port.protocol, port.port));
            }
        }
    }

    /// Returns the allocatable amounts of a resource.
    pub(crate) fn allocatable(&self, resource: Res) -> Option<&Column<i64>> {
        self.allocatable.get(resource.index())
    }

    /// Returns the requested amounts of a resource.
    pub(crate) fn requested(&self, resource: Res) -> Option<&Column<i64>> {
        self.requested.get(resource.index())
    }

    /// Returns the allocatable minus the requested amount on one node.
    pub(crate) fn free(&self, node: NodeIx, resource: Res) -> i64 {
        self.allocatable(resource).map_or(0, |values| values.at(node))
            - self.requested(resource).map_or(0, |values| values.at(node))
    }

    /// Returns every distinct taint seen since the start, with the nodes that carry it now.
    pub(crate) fn taints(&self) -> &[TaintRow] {
        &self.taints
    }

    /// Whether any node carries a taint of this effect that `tolerated` does not cover.
    pub(crate) fn any_taint(&self, effect: Effect, tolerated: impl Fn(Taint) -> bool) -> bool {
        self.taints.iter().any(|row| row.count > 0 && row.taint.effect == effect && !tolerated(row.taint))
    }

    /// Returns the row of an image, if any node has the image.
    pub(crate) fn image(&self, image: Sym) -> Option<&ImageRow> {
        self.images.get(&image)
    }

    /// Adds every node on which the port cannot be bound to `out`.
    pub(crate) fn port_taken(&self, port: &HostPort, out: &mut BitSet) {
        let Some(users) = self.ports.get(&(port.protocol, port.port)) else { return };
        for (node, address) in users.keys() {
            if port.clashes(&HostPort { address: *address, ..*port }) {
                out.insert(*node);
            }
        }
    }

    /// Whether the port cannot be bound on one node.
    pub(crate) fn port_taken_on(&self, port: &HostPort, node: NodeIx) -> bool {
        self.ports.get(&(port.protocol, port.port)).is_some_and(|users| {
            users
                .range((node, Sym::EMPTY)..)
                .take_while(|((user, _), _)| *user == node)
                .any(|((_, address), _)| port.clashes(&HostPort { address: *address, ..*port }))
        })
    }

    /// Collects the nodes whose labels meet a requirement in `out` (cleared first).
    pub(crate) fn matching(&self, requirement: &Requirement, names: &Interner, out: &mut BitSet) {
        out.clear();
        let index = self.labels.get(&requirement.key);
        match &requirement.op {
            Op::In(values) => {
                for value in values {
                    if let Some(nodes) = index.and_then(|index| index.values.get(value)) {
                        nodes.add_to(out);
                    }
                }
            }
            Op::Exists => {
                if let Some(index) = index {
                    out.copy_from(&index.present);
                }
            }
            Op::Gt(_) | Op::Lt(_) => {
                for (value, nodes) in index.iter().flat_map(|index| &index.values) {
                    if requirement.accepts(Some(*value), names) {
                        nodes.add_to(out);
                    }
                }
            }
            Op::NotIn(values) => {
                let mut excluded = BitSet::default();
                for value in values {
                    if let Some(nodes) = index.and_then(|index| index.values.get(value)) {
                        nodes.add_to(&mut excluded);
                    }
                }
                out.copy_from(&self.live);
                out.subtract(&excluded);
            }
            Op::DoesNotExist => {
                out.copy_from(&self.live);
                if let Some(index) = index {
                    out.subtract(&index.present);
                }
            }
        }
    }

    /// Collects the nodes that a selector term matches in `out` (cleared first).
    pub(crate) fn matching_term(&self, term: &NodeTerm, names: &Interner, out: &mut BitSet) {
        out.clear();
        if term.never {
            return;
        }
        out.copy_from(&self.live);
        let mut scratch = BitSet::default();
        for requirement in &term.labels {
            self.matching(requirement, names, &mut scratch);
            out.intersect_with(&scratch);
        }
        for field in &term.fields {
            scratch.clear();
            if let Some(node) = self.find(field.name) {
                scratch.insert(node);
            }
            if field.wanted {
                out.intersect_with(&scratch);
            } else {
                out.subtract(&scratch);
            }
        }
    }

    /// Collects the nodes that meet `nodeSelector` and required node affinity in `out` (cleared first).
    pub(crate) fn matching_spec(&self, spec: &PodSpec, names: &Interner, out: &mut BitSet) {
        out.copy_from(&self.live);
        let mut scratch = BitSet::default();
        for requirement in &spec.node_selector {
            self.matching(requirement, names, &mut scratch);
            out.intersect_with(&scratch);
        }
        if let Some(terms) = &spec.node_required {
            let mut any = BitSet::default();
            for term in terms {
                self.matching_term(term, names, &mut scratch);
                any.union_with(&scratch);
            }
            out.intersect_with(&any);
        }
    }
}

/// Whether one node meets a selector term.
pub(crate) fn term_matches(term: &NodeTerm, node: &NodeInfo, names: &Interner) -> bool {
    !term.never
        && term.labels.iter().all(|requirement| requirement.accepts(node.labels.get(requirement.key), names))
        && term.fields.iter().all(|field| (field.name == node.name) == field.wanted)
}

/// Whether one node meets `nodeSelector` and required node affinity (upstream: `RequiredNodeAffinity.Match`).
pub(crate) fn spec_matches(spec: &PodSpec, node: &NodeInfo, names: &Interner) -> bool {
    spec.node_selector.iter().all(|requirement| requirement.accepts(node.labels.get(requirement.key), names))
        && spec.node_required.as_ref().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node, names)))
}

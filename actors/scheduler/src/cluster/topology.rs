//! Topologies: the domain (zone, host, rack) of each node, per label key that some term uses.

use crate::column::{Column, NodeIx};
use crate::intern::Sym;
use crate::labels::Labels;
use crate::map::Map;

/// Number of a topology in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopoId(usize);

impl TopoId {
    /// The topology in which every node is a domain of its own, regardless of its labels.
    pub(crate) const NODE: Self = Self(0);
}

/// Number of a domain of a topology; 0 if the node lacks the label.
pub(crate) type Domain = u32;

/// The domain of nodes that lack the label.
pub(crate) const NOWHERE: Domain = 0;

#[derive(Default)]
struct Topology {
    of_node: Column<Domain>,
    by_value: Map<Sym, Domain>,
    values: Vec<Sym>,
    members: Vec<u32>,
    free: Vec<Domain>,
}

impl Topology {
    fn enter(&mut self, node: NodeIx, value: Option<Sym>) {
        let old = self.of_node.at(node);
        if old != NOWHERE
            && let Some(members) = self.members.get_mut(old as usize)
        {
            *members -= 1;
            if *members == 0 {
                self.free.push(old);
                if let Some(value) = self.values.get(old as usize) {
                    self.by_value.remove(value);
                }
            }
        }
        let new = value.map_or(NOWHERE, |value| self.domain(value));
        if new != NOWHERE
            && let Some(members) = self.members.get_mut(new as usize)
        {
            *members += 1;
        }
        self.of_node.set(node, new);
    }

    fn domain(&mut self, value: Sym) -> Domain {
        if let Some(domain) = self.by_value.get(&value) {
            return *domain;
        }
        if self.values.is_empty() {
            self.values.push(Sym::EMPTY);
            self.members.push(0);
        }
        let domain = match self.free.pop() {
            Some(domain) => {
                if let Some(slot) = self.values.get_mut(domain as usize) {
                    *slot = value;
                }
                domain
            }
            None => {
                self.values.push(value);
                self.members.push(0);
                Domain::try_from(self.values.len() - 1).unwrap_or(NOWHERE)
            }
        };
        self.by_value.insert(value, domain);
        domain
    }
}

/// All topologies in use.
pub(crate) struct Topologies {
    keys: Vec<Sym>,
    rows: Vec<Topology>,
}

impl Default for Topologies {
    fn default() -> Self {
        Self { keys: vec![Sym::EMPTY], rows: vec![Topology::default()] }
    }
}

impl Topologies {
    /// Returns the topology of a label key; `nodes` is read when the key is new.
    pub(crate) fn open<'a>(&mut self, key: Sym, nodes: impl Iterator<Item = (NodeIx, &'a Labels)>) -> TopoId {
        if let Some(at) = self.keys.iter().skip(1).position(|known| *known == key) {
            return TopoId(at + 1);
        }
        let mut topology = Topology::default();
        for (node, labels) in nodes {
            topology.enter(node, labels.get(key));
        }
        self.keys.push(key);
        self.rows.push(topology);
        TopoId(self.rows.len() - 1)
    }

    /// Moves a node to the domains that its labels name; `None` removes the node from all domains.
    pub(crate) fn place(&mut self, node: NodeIx, labels: Option<&Labels>) {
        for (key, topology) in self.keys.iter().zip(&mut self.rows).skip(1) {
            topology.enter(node, labels.and_then(|labels| labels.get(*key)));
        }
    }

    /// Returns the domain of a node.
    pub(crate) fn domain(&self, topology: TopoId, node: NodeIx) -> Domain {
        if topology == TopoId::NODE {
            return node.0 + 1;
        }
        self.rows.get(topology.0).map_or(NOWHERE, |row| row.of_node.at(node))
    }

    /// Returns the domains of all nodes in slot order. Empty for [`TopoId::NODE`], where a node's domain is its slot plus 1.
    pub(crate) fn column(&self, topology: TopoId) -> &[Domain] {
        self.rows.get(topology.0).map_or(&[], |row| row.of_node.values())
    }

    /// Returns how many domain numbers a topology has assigned, 0 included: the length of a table by domain.
    pub(crate) fn size(&self, topology: TopoId) -> usize {
        self.rows.get(topology.0).map_or(0, |row| row.values.len())
    }

    /// Returns the label key of a topology.
    #[cfg(test)]
    pub(crate) fn key(&self, topology: TopoId) -> Sym {
        self.keys.get(topology.0).copied().unwrap_or_default()
    }

    /// Returns the label value of a domain.
    #[cfg(test)]
    pub(crate) fn value(&self, topology: TopoId, domain: Domain) -> Sym {
        self.rows.get(topology.0).and_then(|row| row.values.get(domain as usize)).copied().unwrap_or_default()
    }
}

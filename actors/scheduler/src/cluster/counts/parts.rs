//! Rows of the tables of counts: counters of matching pods, sums of weights, and restricted sets of nodes.

use std::collections::BTreeMap;

use crate::bits::BitSet;
use crate::cluster::nodes::term_matches;
use crate::cluster::topology::{Domain, NOWHERE, TopoId};
use crate::intern::{Interner, Sym};
use crate::labels::Requirement;
use crate::model::{Effect, NodeInfo, NodeTerm, Toleration, tolerated};

use super::{EligibleId, MatcherId};

/// The key of a set of nodes over which a spread constraint counts (upstream: node inclusion policies, and all topology keys present).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EligibleKey {
    /// `nodeSelector` and required node affinity, when honoured.
    pub(crate) affinity: Option<NodeRequirements>,
    /// The pod's tolerations, when taints are honoured.
    pub(crate) tolerations: Option<Box<[Toleration]>>,
    /// Label keys every counted node has.
    pub(crate) keys: Box<[Sym]>,
}

/// `nodeSelector`, and the terms of required node affinity.
pub(crate) type NodeRequirements = (Box<[Requirement]>, Option<Box<[NodeTerm]>>);

/// A set of nodes that some counters are restricted to.
pub(crate) struct Eligible {
    pub(crate) key: EligibleKey,
    pub(crate) nodes: BitSet,
    pub(super) refs: u32,
}

/// The key of a counter: the pods and nodes that it counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CounterKey {
    pub(crate) matcher: MatcherId,
    pub(crate) topology: TopoId,
    pub(crate) eligible: Option<EligibleId>,
    /// Whether terminating pods are left out: spreading does so, affinity does not.
    pub(crate) skip_terminating: bool,
}

/// A counter of matching pods per domain.
pub(crate) struct Counter {
    pub(crate) key: CounterKey,
    counts: Vec<u32>,
    /// The sum over all domains.
    pub(crate) total: u64,
    nodes: Vec<u32>,
    histogram: BTreeMap<u32, u32>,
    /// Number of domains with an eligible node.
    pub(crate) domains: u32,
    pub(super) refs: u32,
}

fn grow<T: Default + Clone>(values: &mut Vec<T>, domain: Domain) -> Option<&mut T> {
    let at = domain as usize;
    if values.len() <= at {
        values.resize(at + 1, T::default());
    }
    values.get_mut(at)
}

impl Counter {
    pub(super) fn new(key: CounterKey) -> Self {
        Self { key, counts: Vec::new(), total: 0, nodes: Vec::new(), histogram: BTreeMap::new(), domains: 0, refs: 0 }
    }

    /// Returns the count of a domain.
    pub(crate) fn count(&self, domain: Domain) -> u32 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// Returns the counts by domain; the slice may be shorter than the topology.
    pub(crate) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the smallest count among domains with an eligible node.
    pub(crate) fn minimum(&self) -> Option<u32> {
        self.histogram.first_key_value().map(|(count, _)| *count)
    }

    pub(in crate::cluster) fn add(&mut self, domain: Domain, sign: i32) {
        if domain == NOWHERE {
            return;
        }
        let listed = self.nodes.get(domain as usize).is_some_and(|nodes| *nodes > 0);
        let Some(count) = grow(&mut self.counts, domain) else { return };
        let old = *count;
        *count = old.saturating_add_signed(sign);
        let new = *count;
        self.total = self.total.saturating_add_signed(i64::from(sign));
        if listed {
            self.unlist(old);
            *self.histogram.entry(new).or_default() += 1;
        }
    }

    fn unlist(&mut self, count: u32) {
        if let Some(domains) = self.histogram.get_mut(&count) {
            *domains -= 1;
            if *domains == 0 {
                self.histogram.remove(&count);
            }
        }
    }

    pub(in crate::cluster) fn add_node(&mut self, domain: Domain, sign: i32) {
        if domain == NOWHERE {
            return;
        }
        let Some(nodes) = grow(&mut self.nodes, domain) else { return };
        let old = *nodes;
        *nodes = old.saturating_add_signed(sign);
        let new = *nodes;
        let count = self.count(domain);
        if old == 0 && new > 0 {
            self.domains += 1;
            *self.histogram.entry(count).or_default() += 1;
        } else if old > 0 && new == 0 {
            self.domains -= 1;
            self.unlist(count);
        }
    }
}

/// The effect of a placed pod's term on matching pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HolderKind {
    /// Required anti-affinity: rejects matching pods in the domain.
    Repels,
    /// Preferred terms and required affinity: moves the score of matching pods.
    Weighs,
}

/// A term of placed pods, and the sum of its weights per domain.
pub(crate) struct Holder {
    pub(crate) key: (MatcherId, TopoId, HolderKind),
    pub(super) sums: Vec<i64>,
    /// Number of domains with a sum other than 0.
    pub(crate) domains: u32,
    pub(super) refs: u32,
}

impl Holder {
    /// Returns the sums by domain; the slice may be shorter than the topology.
    pub(crate) fn sums(&self) -> &[i64] {
        &self.sums
    }

    /// Returns the sum of a domain.
    pub(crate) fn sum(&self, domain: Domain) -> i64 {
        self.sums.get(domain as usize).copied().unwrap_or(0)
    }

    pub(in crate::cluster) fn add(&mut self, domain: Domain, weight: i64) {
        if domain == NOWHERE {
            return;
        }
        let Some(sum) = grow(&mut self.sums, domain) else { return };
        let old = *sum;
        *sum += weight;
        match (old == 0, *sum == 0) {
            (true, false) => self.domains += 1,
            (false, true) => self.domains -= 1,
            _ => {}
        }
    }
}

/// Whether a node belongs to an eligible set.
pub(in crate::cluster) fn is_eligible(key: &EligibleKey, node: &NodeInfo, names: &Interner) -> bool {
    let labelled = key.keys.iter().all(|key| node.labels.get(*key).is_some());
    let wanted = key.affinity.as_ref().is_none_or(|(selector, terms)| {
        selector.iter().all(|requirement| requirement.accepts(node.labels.get(requirement.key), names))
            && terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node, names)))
    });
    let bearable = key.tolerations.as_ref().is_none_or(|tolerations| {
        node.taints.iter().all(|taint| taint.effect == Effect::PreferNoSchedule || tolerated(tolerations, taint))
    });
    labelled && wanted && bearable
}

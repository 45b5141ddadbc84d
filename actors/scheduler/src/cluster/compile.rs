//! Compiles a pod spec, once per class: terms and constraints become numbers of counters.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::column::NodeIx;
use crate::intern::Sym;
use crate::labels::Selector;
use crate::model::{Matcher, PodSpec, PodTerm, Spread};

use super::counts::{self, CounterId, CounterKey, EligibleKey, HolderKind, MatcherId};
use super::topology::TopoId;
use super::{Cluster, Counter, SpecId, SpecRow};

/// Weight of required affinity terms of placed pods in the score of the pods they match (upstream's default
/// `hardPodAffinityWeight`).
const REQUIRED_AFFINITY_WEIGHT: i64 = 1;

/// A compiled topology spread constraint of a class.
#[derive(Clone, Debug)]
pub(crate) struct SpreadRule {
    /// The constraint's counter.
    pub(crate) counter: CounterId,
    /// The topology over which pods are counted: the node itself for soft spreading over host names.
    pub(crate) topology: TopoId,
    /// The topology whose label the node must have.
    pub(crate) label: TopoId,
    /// `maxSkew`.
    pub(crate) max_skew: i64,
    /// `minDomains`.
    pub(crate) min_domains: u32,
    /// Whether the pod counts itself.
    pub(crate) counts_itself: bool,
}

/// The compiled form of a pod spec.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled {
    /// One counter per term of required affinity; each counts pods that match *all* terms.
    pub(crate) affinity: Vec<CounterId>,
    /// Whether the pod itself matches all terms of its required affinity.
    pub(crate) affine_to_itself: bool,
    /// One counter per term of required anti-affinity.
    pub(crate) anti_affinity: Vec<CounterId>,
    /// Counters of preferred terms with their signed weights.
    pub(crate) preferred: Vec<(CounterId, i64)>,
    /// Constraints with `DoNotSchedule`.
    pub(crate) hard_spread: Vec<SpreadRule>,
    /// Constraints with `ScheduleAnyway`: the pod's, or else the cluster's default.
    pub(crate) soft_spread: Vec<SpreadRule>,
    /// Whether a node without one of the soft topologies gets no spread score.
    pub(crate) soft_needs_all: bool,
    /// Number of the compilation: when the number changes, a class compiles its plugins again.
    pub(crate) version: u64,
    default_selector: Option<Selector>,
    owner_changes: u64,
}

impl Compiled {
    fn counters(&self) -> impl Iterator<Item = CounterId> + '_ {
        self.affinity
            .iter()
            .chain(&self.anti_affinity)
            .copied()
            .chain(self.preferred.iter().map(|term| term.0))
            .chain(self.hard_spread.iter().chain(&self.soft_spread).map(|rule| rule.counter))
    }
}

/// Upstream's default constraints: `systemDefaultConstraints` of PodTopologySpread.
const DEFAULT_SPREAD: [(Sym, i32); 2] = [(Sym::HOSTNAME, 3), (Sym::ZONE, 5)];

impl Cluster {
    /// Returns an interned spec.
    pub(crate) fn spec(&self, id: SpecId) -> Option<&SpecRow> {
        self.specs.get(id.0)
    }

    /// Returns the compiled form of a pinned spec.
    pub(crate) fn compiled(&self, id: SpecId) -> Option<&Compiled> {
        self.spec(id).and_then(|row| row.compiled.as_ref())
    }

    /// Returns a counter of a compiled spec.
    pub(crate) fn counter(&self, id: CounterId) -> Option<&Counter> {
        self.counts.counters.get(id)
    }

    /// Returns the topology of a label key, created on first use.
    pub(super) fn topology(&mut self, key: Sym) -> TopoId {
        let nodes = &self.nodes;
        let labelled = (0..nodes.slots()).filter_map(|slot| {
            let node = NodeIx(slot as u32);
            nodes.info(node).map(|info| (node, &info.labels))
        });
        self.topologies.open(key, labelled)
    }

    /// Interns a spec and adds a reference.
    pub(super) fn hold_spec(&mut self, spec: &Arc<PodSpec>) -> SpecId {
        if let Some(id) = self.spec_ids.get(spec).copied() {
            if let Some(row) = self.specs.get_mut(id.0) {
                row.refs += 1;
            }
            return id;
        }
        let set = self.counts.hold_set(spec.namespace, &spec.labels, &self.names);
        let mut holders = Vec::new();
        for term in &spec.anti_affinity {
            holders.push((self.hold_holder(term, HolderKind::Repels), 1));
        }
        for term in &spec.affinity {
            holders.push((self.hold_holder(term, HolderKind::Weighs), REQUIRED_AFFINITY_WEIGHT));
        }
        for (weight, term) in &spec.preferred {
            holders.push((self.hold_holder(term, HolderKind::Weighs), *weight));
        }
        let row = SpecRow { spec: Arc::clone(spec), set, holders, compiled: None, refs: 1, pins: 0 };
        let id = SpecId(self.specs.insert(row));
        self.spec_ids.insert(Arc::clone(spec), id);
        id
    }

    fn hold_holder(&mut self, term: &PodTerm, kind: HolderKind) -> counts::HolderId {
        let topology = self.topology(term.topology);
        let matcher = self.counts.hold_matcher(Box::new([term.matcher.clone()]), &self.names);
        self.counts.hold_holder((matcher, topology, kind))
    }

    /// Drops one reference to a spec.
    pub(super) fn release_spec(&mut self, id: SpecId) {
        let Some(row) = self.specs.get_mut(id.0) else { return };
        row.refs -= 1;
        if row.refs > 0 {
            return;
        }
        let Some(row) = self.specs.remove(id.0) else { return };
        self.spec_ids.remove(&row.spec);
        for (holder, _) in row.holders {
            self.counts.release_holder(holder);
        }
        self.counts.release_set(row.set);
    }

    /// Interns and compiles a spec until [`Cluster::unpin`].
    pub(crate) fn pin(&mut self, spec: &Arc<PodSpec>) -> SpecId {
        let id = self.hold_spec(spec);
        let first = self.specs.get_mut(id.0).is_some_and(|row| {
            row.pins += 1;
            row.pins == 1
        });
        if first {
            let default = self.default_spread(spec);
            self.compile(id, default);
        }
        id
    }

    /// Ends a [`Cluster::pin`].
    pub(crate) fn unpin(&mut self, id: SpecId) {
        if let Some(row) = self.specs.get_mut(id.0) {
            row.pins -= 1;
            if row.pins == 0 {
                self.discard(id);
            }
        }
        self.release_spec(id);
    }

    fn discard(&mut self, id: SpecId) {
        let compiled = self.specs.get_mut(id.0).and_then(|row| row.compiled.take());
        for counter in compiled.iter().flat_map(Compiled::counters) {
            self.counts.release_counter(counter);
        }
    }

    /// Compiles a pinned spec again if its default spread selector changed.
    pub(crate) fn refresh(&mut self, id: SpecId) {
        let changes = self.owners.changes;
        let Some(row) = self.specs.get_mut(id.0) else { return };
        let Some(compiled) = row.compiled.as_mut() else { return };
        if compiled.owner_changes == changes {
            return;
        }
        compiled.owner_changes = changes;
        let known = compiled.default_selector.clone();
        let spec = Arc::clone(&row.spec);
        let default = self.default_spread(&spec);
        if default != known {
            self.discard(id);
            self.compile(id, default);
        }
    }

    fn default_spread(&self, spec: &PodSpec) -> Option<Selector> {
        if spec.spread.is_empty() { self.owners.default_selector(spec, &self.names) } else { None }
    }

    fn compile(&mut self, id: SpecId, default_selector: Option<Selector>) {
        let Some(row) = self.spec(id) else { return };
        let (spec, set) = (Arc::clone(&row.spec), row.set);
        self.compilations += 1;
        let mut compiled = Compiled {
            version: self.compilations,
            default_selector: default_selector.clone(),
            owner_changes: self.owners.changes,
            soft_needs_all: !spec.spread.is_empty(),
            ..Compiled::default()
        };
        let all: Box<[Matcher]> = spec.affinity.iter().map(|term| term.matcher.clone()).collect();
        for term in &spec.affinity {
            let topology = self.topology(term.topology);
            let matcher = self.counts.hold_matcher(all.clone(), &self.names);
            compiled.affine_to_itself = self.counts.set_matches(set, matcher);
            compiled.affinity.push(self.open_counter(matcher, topology, None, false));
        }
        for term in &spec.anti_affinity {
            let counter = self.term_counter(term);
            compiled.anti_affinity.push(counter);
        }
        for (weight, term) in &spec.preferred {
            let counter = self.term_counter(term);
            compiled.preferred.push((counter, *weight));
        }
        let default: Vec<Spread> = default_selector
            .map(|selector| DEFAULT_SPREAD.map(|(topology, skew)| default_rule(topology, skew, &selector)))
            .into_iter()
            .flatten()
            .collect();
        let rules: &[Spread] = if spec.spread.is_empty() { &default } else { &spec.spread };
        for hard in [true, false] {
            let keys: Box<[Sym]> = rules.iter().filter(|rule| rule.hard == hard).map(|rule| rule.topology).collect();
            for rule in rules.iter().filter(|rule| rule.hard == hard) {
                let needed = if hard || compiled.soft_needs_all { keys.clone() } else { Box::default() };
                let rule = self.spread_rule(&spec, set, rule, needed);
                if hard {
                    compiled.hard_spread.push(rule);
                } else {
                    compiled.soft_spread.push(rule);
                }
            }
        }
        if let Some(row) = self.specs.get_mut(id.0) {
            row.compiled = Some(compiled);
        }
    }

    fn term_counter(&mut self, term: &PodTerm) -> CounterId {
        let topology = self.topology(term.topology);
        let matcher = self.counts.hold_matcher(Box::new([term.matcher.clone()]), &self.names);
        self.open_counter(matcher, topology, None, false)
    }

    fn spread_rule(&mut self, spec: &PodSpec, set: counts::SetId, rule: &Spread, keys: Box<[Sym]>) -> SpreadRule {
        let label = self.topology(rule.topology);
        let per_node = !rule.hard && rule.topology == Sym::HOSTNAME;
        let topology = if per_node { TopoId::NODE } else { label };
        let here = |selector: Selector| {
            Box::new([Matcher {
                selector,
                namespaces: Box::new([spec.namespace]),
                namespace_selector: Selector::Nothing,
            }])
        };
        // An empty selector counts no pod (upstream: countPodsMatchSelector), yet matches the pod itself.
        let counted = if rule.selector.is_empty() { Selector::Nothing } else { rule.selector.clone() };
        let matcher = self.counts.hold_matcher(here(counted), &self.names);
        let counts_itself = rule.selector.is_empty() || self.counts.set_matches(set, matcher);
        let eligible = (!per_node).then(|| EligibleKey {
            affinity: rule.honor_affinity.then(|| (spec.node_selector.clone(), spec.node_required.clone())),
            tolerations: rule.honor_taints.then(|| spec.tolerations.clone()),
            keys,
        });
        let counter = self.open_counter(matcher, topology, eligible, true);
        SpreadRule {
            counter,
            topology,
            label,
            max_skew: i64::from(rule.max_skew),
            min_domains: u32::try_from(rule.min_domains).unwrap_or(0),
            counts_itself,
        }
    }

    fn open_counter(
        &mut self,
        matcher: MatcherId,
        topology: TopoId,
        eligible: Option<EligibleKey>,
        skip_terminating: bool,
    ) -> CounterId {
        let eligible = eligible.map(|key| {
            let (nodes, names) = (&self.nodes, &self.names);
            self.counts.hold_eligible(key, |key| {
                let mut members = BitSet::default();
                for node in nodes.live.iter() {
                    if nodes.info(node).is_some_and(|info| counts::is_eligible(key, info, names)) {
                        members.insert(node);
                    }
                }
                members
            })
        });
        let (id, fresh) = self.counts.hold_counter(CounterKey { matcher, topology, eligible, skip_terminating });
        if fresh {
            let members: Vec<NodeIx> = eligible
                .and_then(|id| self.counts.eligibles.get(id))
                .map_or_else(Vec::new, |eligible| eligible.nodes.iter().collect());
            if let Some(counter) = self.counts.counters.get_mut(id) {
                for node in members {
                    counter.add_node(self.topologies.domain(topology, node), 1);
                }
            }
            for pod in self.counts.matched_pods(matcher) {
                self.count_one(id, pod, 1);
            }
        }
        id
    }
}

fn default_rule(topology: Sym, max_skew: i32, selector: &Selector) -> Spread {
    Spread {
        topology,
        max_skew,
        hard: false,
        selector: selector.clone(),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

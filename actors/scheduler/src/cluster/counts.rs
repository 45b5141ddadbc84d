//! Incremental counts: the number of pods that a matcher matches per topology domain, and the weights that the terms of
//! placed pods give a domain. Placing a pod changes a few numbers; nothing is ever counted again.
//!
//! Pods with the same namespace and labels form a *label set*. Whether a matcher matches is decided once per
//! label set, so that placing a pod is a walk over the short list of matchers of its set.

use crate::bits::BitSet;
use crate::column::NodeIx;
use crate::intern::{Interner, Sym};
use crate::labels::{Labels, Selector};
use crate::map::Map;
use crate::model::Matcher;
use crate::slab::Slab;

use super::topology::{Domain, TopoId};

mod parts;

pub(super) use parts::is_eligible;
pub(crate) use parts::{Counter, CounterKey, Eligible, EligibleKey, Holder, HolderKind};

/// Numbers of rows in the tables below.
pub(crate) type SetId = u32;
pub(crate) type MatcherId = u32;
pub(crate) type CounterId = u32;
pub(crate) type HolderId = u32;
pub(crate) type EligibleId = u32;

struct MatcherRow {
    /// The parts of the matcher, which must all match (the terms of required affinity are one matcher).
    parts: Box<[Matcher]>,
    counters: Vec<CounterId>,
    holders: Vec<HolderId>,
    sets: Vec<SetId>,
    refs: u32,
}

impl MatcherRow {
    fn matches(&self, set: &LabelSet, namespace: &Labels, names: &Interner) -> bool {
        !self.parts.is_empty()
            && self.parts.iter().all(|part| {
                (part.namespaces.contains(&set.namespace) || part.namespace_selector.matches(namespace, names))
                    && part.selector.matches(&set.labels, names)
            })
    }

    /// Returns the namespaces that the matcher is limited to, if any.
    fn namespaces(&self) -> Option<&[Sym]> {
        let part = self.parts.first()?;
        (part.namespace_selector == Selector::Nothing).then_some(&*part.namespaces)
    }
}

struct LabelSet {
    namespace: Sym,
    labels: Labels,
    matchers: Vec<MatcherId>,
    pods: Vec<u32>,
    refs: u32,
}

/// The tables of label sets, matchers, counters and holders.
#[derive(Default)]
pub(crate) struct Counts {
    sets: Slab<LabelSet>,
    set_ids: Map<(Sym, Labels), SetId>,
    sets_in: Map<Sym, Vec<SetId>>,
    matchers: Slab<MatcherRow>,
    matcher_ids: Map<Box<[Matcher]>, MatcherId>,
    matchers_in: Map<Sym, Vec<MatcherId>>,
    matchers_anywhere: Vec<MatcherId>,
    pub(crate) counters: Slab<Counter>,
    counter_ids: Map<CounterKey, CounterId>,
    pub(crate) holders: Slab<Holder>,
    holder_ids: Map<(MatcherId, TopoId, HolderKind), HolderId>,
    pub(crate) eligibles: Slab<Eligible>,
    eligible_ids: Map<EligibleKey, EligibleId>,
    namespaces: Map<Sym, Labels>,
    unlabelled: Labels,
}

impl Counts {
    fn namespace(&self, name: Sym) -> &Labels {
        self.namespaces.get(&name).unwrap_or(&self.unlabelled)
    }

    /// Returns the namespaces whose labels are known.
    pub(crate) fn known_namespaces(&self) -> Vec<Sym> {
        self.namespaces.keys().copied().collect()
    }

    /// Returns the label set of a namespace and labels, with a new reference.
    pub(super) fn hold_set(&mut self, namespace: Sym, labels: &Labels, names: &Interner) -> SetId {
        let key = (namespace, labels.clone());
        if let Some(id) = self.set_ids.get(&key) {
            if let Some(set) = self.sets.get_mut(*id) {
                set.refs += 1;
            }
            return *id;
        }
        let mut set = LabelSet { namespace, labels: labels.clone(), matchers: Vec::new(), pods: Vec::new(), refs: 1 };
        let here = self.namespace(namespace);
        let limited = self.matchers_in.get(&namespace).into_iter().flatten();
        for id in limited.chain(&self.matchers_anywhere) {
            if self.matchers.get(*id).is_some_and(|row| row.matches(&set, here, names)) {
                set.matchers.push(*id);
            }
        }
        let matchers = set.matchers.clone();
        let id = self.sets.insert(set);
        for matcher in matchers {
            if let Some(row) = self.matchers.get_mut(matcher) {
                row.sets.push(id);
            }
        }
        self.set_ids.insert(key, id);
        self.sets_in.entry(namespace).or_default().push(id);
        id
    }

    /// Drops one reference.
    pub(super) fn release_set(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(id) else { return };
        set.refs -= 1;
        if set.refs > 0 {
            return;
        }
        let Some(set) = self.sets.remove(id) else { return };
        for matcher in &set.matchers {
            if let Some(row) = self.matchers.get_mut(*matcher) {
                row.sets.retain(|known| *known != id);
            }
        }
        if let Some(sets) = self.sets_in.get_mut(&set.namespace) {
            sets.retain(|known| *known != id);
            if sets.is_empty() {
                self.sets_in.remove(&set.namespace);
            }
        }
        self.set_ids.remove(&(set.namespace, set.labels));
    }

    /// Returns the placed pods of a label set.
    pub(super) fn set_pods(&mut self, id: SetId) -> Option<&mut Vec<u32>> {
        self.sets.get_mut(id).map(|set| &mut set.pods)
    }

    /// Returns the matcher of these parts, with a new reference.
    pub(super) fn hold_matcher(&mut self, parts: Box<[Matcher]>, names: &Interner) -> MatcherId {
        if let Some(id) = self.matcher_ids.get(&parts) {
            if let Some(row) = self.matchers.get_mut(*id) {
                row.refs += 1;
            }
            return *id;
        }
        let mut row =
            MatcherRow { parts: parts.clone(), counters: Vec::new(), holders: Vec::new(), sets: Vec::new(), refs: 1 };
        let candidates: Vec<SetId> = match row.namespaces() {
            Some(namespaces) => {
                namespaces.iter().filter_map(|name| self.sets_in.get(name)).flatten().copied().collect()
            }
            None => self.sets.iter().map(|(id, _)| id).collect(),
        };
        for id in candidates {
            if let Some(set) = self.sets.get(id)
                && row.matches(set, self.namespace(set.namespace), names)
            {
                row.sets.push(id);
            }
        }
        let matching = row.sets.clone();
        let limits = row.namespaces().map(<[Sym]>::to_vec);
        let id = self.matchers.insert(row);
        for set in matching {
            if let Some(set) = self.sets.get_mut(set) {
                set.matchers.push(id);
            }
        }
        match limits {
            Some(namespaces) => {
                for name in namespaces {
                    self.matchers_in.entry(name).or_default().push(id);
                }
            }
            None => self.matchers_anywhere.push(id),
        }
        self.matcher_ids.insert(parts, id);
        id
    }

    /// Drops one reference.
    pub(super) fn release_matcher(&mut self, id: MatcherId) {
        let Some(row) = self.matchers.get_mut(id) else { return };
        row.refs -= 1;
        if row.refs > 0 {
            return;
        }
        let Some(row) = self.matchers.remove(id) else { return };
        for set in &row.sets {
            if let Some(set) = self.sets.get_mut(*set) {
                set.matchers.retain(|known| *known != id);
            }
        }
        match row.namespaces() {
            Some(namespaces) => {
                for name in namespaces {
                    if let Some(matchers) = self.matchers_in.get_mut(name) {
                        matchers.retain(|known| *known != id);
                        if matchers.is_empty() {
                            self.matchers_in.remove(name);
                        }
                    }
                }
            }
            None => self.matchers_anywhere.retain(|known| *known != id),
        }
        self.matcher_ids.remove(&row.parts);
    }

    /// Returns the counter of a key with a new reference, and whether the counter is new and must be filled.
    /// The key's matcher and eligible set stay referenced by the counter.
    pub(super) fn hold_counter(&mut self, key: CounterKey) -> (CounterId, bool) {
        if let Some(id) = self.counter_ids.get(&key).copied() {
            if let Some(counter) = self.counters.get_mut(id) {
                counter.refs += 1;
            }
            self.release_matcher(key.matcher);
            if let Some(eligible) = key.eligible {
                self.release_eligible(eligible);
            }
            return (id, false);
        }
        let mut counter = Counter::new(key.clone());
        counter.refs = 1;
        let id = self.counters.insert(counter);
        if let Some(row) = self.matchers.get_mut(key.matcher) {
            row.counters.push(id);
        }
        self.counter_ids.insert(key, id);
        (id, true)
    }

    /// Drops one reference.
    pub(super) fn release_counter(&mut self, id: CounterId) {
        let Some(counter) = self.counters.get_mut(id) else { return };
        counter.refs -= 1;
        if counter.refs > 0 {
            return;
        }
        let Some(counter) = self.counters.remove(id) else { return };
        self.counter_ids.remove(&counter.key);
        if let Some(row) = self.matchers.get_mut(counter.key.matcher) {
            row.counters.retain(|known| *known != id);
        }
        self.release_matcher(counter.key.matcher);
        if let Some(eligible) = counter.key.eligible {
            self.release_eligible(eligible);
        }
    }

    /// Returns the holder of a term with a new reference. The holder keeps a reference to the matcher.
    pub(super) fn hold_holder(&mut self, key: (MatcherId, TopoId, HolderKind)) -> HolderId {
        if let Some(id) = self.holder_ids.get(&key).copied() {
            if let Some(holder) = self.holders.get_mut(id) {
                holder.refs += 1;
            }
            self.release_matcher(key.0);
            return id;
        }
        let id = self.holders.insert(Holder { key, sums: Vec::new(), domains: 0, refs: 1 });
        if let Some(row) = self.matchers.get_mut(key.0) {
            row.holders.push(id);
        }
        self.holder_ids.insert(key, id);
        id
    }

    /// Drops one reference.
    pub(super) fn release_holder(&mut self, id: HolderId) {
        let Some(holder) = self.holders.get_mut(id) else { return };
        holder.refs -= 1;
        if holder.refs > 0 {
            return;
        }
        let Some(holder) = self.holders.remove(id) else { return };
        self.holder_ids.remove(&holder.key);
        if let Some(row) = self.matchers.get_mut(holder.key.0) {
            row.holders.retain(|known| *known != id);
        }
        self.release_matcher(holder.key.0);
    }

    /// Returns the eligible set of a key with a new reference; `fill` computes a new set.
    pub(super) fn hold_eligible(&mut self, key: EligibleKey, fill: impl FnOnce(&EligibleKey) -> BitSet) -> EligibleId {
        if let Some(id) = self.eligible_ids.get(&key) {
            if let Some(eligible) = self.eligibles.get_mut(*id) {
                eligible.refs += 1;
            }
            return *id;
        }
        let nodes = fill(&key);
        let id = self.eligibles.insert(Eligible { key: key.clone(), nodes, refs: 1 });
        self.eligible_ids.insert(key, id);
        id
    }

    fn release_eligible(&mut self, id: EligibleId) {
        let Some(eligible) = self.eligibles.get_mut(id) else { return };
        eligible.refs -= 1;
        if eligible.refs > 0 {
            return;
        }
        if let Some(eligible) = self.eligibles.remove(id) {
            self.eligible_ids.remove(&eligible.key);
        }
    }

    /// Returns the numbers of the placed pods that a counter's matcher matches.
    pub(super) fn matched_pods(&self, matcher: MatcherId) -> Vec<u32> {
        let sets = self.matchers.get(matcher).map_or(&[][..], |row| &row.sets);
        sets.iter().filter_map(|id| self.sets.get(*id)).flat_map(|set| &set.pods).copied().collect()
    }

    /// Adds one pod of a label set on a node, or subtracts it.
    pub(super) fn count_pod(
        &mut self,
        set: SetId,
        terminating: bool,
        node: NodeIx,
        sign: i32,
        domain: impl Fn(TopoId) -> Domain,
    ) {
        let Some(set) = self.sets.get(set) else { return };
        for matcher in &set.matchers {
            let Some(row) = self.matchers.get(*matcher) else { continue };
            for id in &row.counters {
                let Some(counter) = self.counters.get_mut(*id) else { continue };
                let counted = !(terminating && counter.key.skip_terminating)
                    && counter
                        .key
                        .eligible
                        .and_then(|id| self.eligibles.get(id))
                        .is_none_or(|eligible| eligible.nodes.contains(node));
                if counted {
                    counter.add(domain(counter.key.topology), sign);
                }
            }
        }
    }

    /// Returns the terms of placed pods that match pods of this label set and have a weight other than 0.
    pub(crate) fn holders_over(&self, set: SetId, kind: HolderKind) -> impl Iterator<Item = &Holder> {
        let matchers = self.sets.get(set).map_or(&[][..], |set| &set.matchers);
        matchers
            .iter()
            .filter_map(|id| self.matchers.get(*id))
            .flat_map(|row| &row.holders)
            .filter_map(|id| self.holders.get(*id))
            .filter(move |holder| holder.key.2 == kind && holder.domains > 0)
    }

    /// Whether a matcher matches the pods of a label set.
    pub(crate) fn set_matches(&self, set: SetId, matcher: MatcherId) -> bool {
        self.sets.get(set).is_some_and(|set| set.matchers.contains(&matcher))
    }

    /// Changes a namespace's labels. Returns the matchings that change: (set, matcher, matches now).
    pub(super) fn set_namespace(
        &mut self,
        name: Sym,
        labels: Option<Labels>,
        names: &Interner,
    ) -> Vec<(SetId, MatcherId, bool)> {
        let old = match labels {
            Some(labels) => self.namespaces.insert(name, labels),
            None => self.namespaces.remove(&name),
        };
        if old.as_ref().unwrap_or(&self.unlabelled) == self.namespace(name) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for set_id in self.sets_in.get(&name).into_iter().flatten() {
            let Some(set) = self.sets.get(*set_id) else { continue };
            for (matcher, row) in self.matchers.iter() {
                let matches = row.matches(set, self.namespace(name), names);
                if matches != set.matchers.contains(&matcher) {
                    changes.push((*set_id, matcher, matches));
                }
            }
        }
        changes
    }

    /// Returns the counters and pods that a change of matching affects.
    pub(super) fn affected(&self, set: SetId, matcher: MatcherId) -> (Vec<CounterId>, Vec<u32>) {
        let counters = self.matchers.get(matcher).map_or_else(Vec::new, |row| row.counters.clone());
        let pods = self.sets.get(set).map_or_else(Vec::new, |set| set.pods.clone());
        (counters, pods)
    }

    /// Records a change of matching.
    pub(super) fn rematch(&mut self, set: SetId, matcher: MatcherId, matches: bool) {
        if let Some(row) = self.sets.get_mut(set) {
            row.matchers.retain(|known| *known != matcher);
            if matches {
                row.matchers.push(matcher);
            }
        }
        if let Some(row) = self.matchers.get_mut(matcher) {
            row.sets.retain(|known| *known != set);
            if matches {
                row.sets.push(set);
            }
        }
    }

    /// Returns a matcher's parts as text, for the dump that tests compare.
    #[cfg(test)]
    pub(crate) fn parts(&self, matcher: MatcherId) -> &[Matcher] {
        self.matchers.get(matcher).map_or(&[], |row| &row.parts)
    }
}

//! The scheduler's state of the cluster: nodes in columns, pods on nodes (bound and assumed), counts per
//! topology domain. Every event changes the state in place; nothing is recomputed from lists of objects.
//!
//! Invariant, tested by random histories: after any sequence of events the state equals the one built from
//! scratch from the remaining objects.

mod budgets;
mod claims;
mod compile;
mod counts;
mod nodes;
mod nominations;
mod owners;
mod rehearsal;
mod topology;

#[cfg(test)]
pub(crate) mod dump;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bits::BitSet;
use crate::column::{Column, NodeIx};
use crate::intern::{Interner, Sym};
use crate::labels::Labels;
use crate::map::Map;
use crate::model::{NodeInfo, PodInfo, PodSpec, Uid};
use crate::slab::Slab;

pub(crate) use budgets::{Budget, Budgets};
pub(crate) use claims::{Claims, DeviceClaim, NodeTerms, VolumeClaim, claimed, device, volume};
pub(crate) use compile::{Compiled, SpreadRule};
pub(crate) use counts::{Counter, Counts, HolderKind, SetId};
pub(crate) use nodes::{Nodes, spec_matches};
pub(crate) use nominations::{Nominations, Reserved};
pub(crate) use rehearsal::Rehearsal;
pub(crate) use topology::{NOWHERE, TopoId, Topologies};

/// Number of an interned pod spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SpecId(u32);

/// A distinct pod spec, kept while placed pods or classes refer to it.
pub(crate) struct SpecRow {
    /// The spec.
    pub(crate) spec: Arc<PodSpec>,
    /// The label set of the spec's pods.
    pub(crate) set: SetId,
    holders: Vec<(counts::HolderId, i64)>,
    compiled: Option<Compiled>,
    refs: u32,
    pins: u32,
}

/// A pod that is bound to a node, or that this process assumes to be.
pub(crate) struct Placed {
    /// The pod.
    pub(crate) info: Arc<PodInfo>,
    /// Number of the pod's interned spec.
    pub(crate) spec: SpecId,
    /// The node's name.
    pub(crate) node: Sym,
    slot: Option<NodeIx>,
    /// Whether this process has decided the placement and the API has not confirmed it yet.
    pub(crate) assumed: bool,
    position: usize,
    set_position: usize,
}

/// The change that [`Cluster::set_pod`] made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PodChange {
    /// The pod was not placed before.
    Added,
    /// The API confirms an assumed placement.
    Confirmed,
    /// A placed pod changed; holds the former state.
    Updated(Arc<PodInfo>),
    /// Nothing that the scheduler reads changed.
    Unchanged,
}

/// The cluster state of one scheduler.
#[derive(Default)]
pub(crate) struct Cluster {
    /// The interner of strings.
    pub(crate) names: Interner,
    /// Node columns.
    pub(crate) nodes: Nodes,
    /// The topologies and their domains.
    pub(crate) topologies: Topologies,
    /// Counts of pods and weights per domain.
    pub(crate) counts: Counts,
    specs: Slab<SpecRow>,
    spec_ids: Map<Arc<PodSpec>, SpecId>,
    pods: Slab<Placed>,
    by_uid: Map<Uid, u32>,
    on_node: Vec<Vec<u32>>,
    orphans: BTreeMap<Sym, Vec<u32>>,
    lowest: Column<i32>,
    /// Selectors of services and owners, for default spreading.
    pub(crate) owners: owners::Owners,
    /// The nominated pods.
    pub(crate) nominations: Nominations,
    /// PodDisruptionBudgets.
    pub(crate) budgets: Budgets,
    /// Claims of volumes and devices.
    pub(crate) claims: Claims,
    compilations: u64,
    /// Whether changes are tentative and must not be logged ([`Rehearsal`]).
    rehearsing: bool,
    log: Vec<NodeIx>,
    log_start: u64,
}

impl Cluster {
    /// Returns an empty cluster with a shared interner.
    pub(crate) fn with_names(names: Interner) -> Self {
        Self { names, ..Self::default() }
    }

    // ---- nodes -------------------------------------------------------------------------------------------

    /// Adds or changes a node. Returns the node's former state.
    pub(crate) fn set_node(&mut self, info: NodeInfo) -> Option<Arc<NodeInfo>> {
        let node = self.nodes.slot_for(info.name);
        let old = self.nodes.info(node).cloned();
        if old.as_deref() == Some(&info) {
            return old;
        }
        let moved = old.as_ref().is_none_or(|old| old.labels != info.labels || old.taints != info.taints);
        if moved {
            self.recount_node(node, -1);
        }
        let info = Arc::new(info);
        self.nodes.replace(node, Some(Arc::clone(&info)));
        if moved {
            self.topologies.place(node, Some(&info.labels));
            self.restrict_node(node, Some(&info));
            self.recount_node(node, 1);
        }
        if old.is_none() {
            for pod in self.orphans.remove(&info.name).unwrap_or_default() {
                self.attach(pod, node);
            }
        }
        self.touch(node);
        old
    }

    /// Removes a node. The node's pods stay known, and are attached again if the node is added again.
    pub(crate) fn remove_node(&mut self, name: Sym) -> Option<Arc<NodeInfo>> {
        let node = self.nodes.find(name)?;
        let old = self.nodes.info(node).cloned();
        let pods = self.on_node.get(node.at()).cloned().unwrap_or_default();
        for pod in &pods {
            self.detach(*pod);
        }
        if !pods.is_empty() {
            self.orphans.insert(name, pods);
        }
        self.recount_node(node, -1);
        self.nodes.replace(node, None);
        self.topologies.place(node, None);
        self.restrict_node(node, None);
        self.touch(node);
        old
    }

    /// Adds a node's pods and its eligibility to all counts (`sign` 1), or subtracts them (`sign` -1).
    fn recount_node(&mut self, node: NodeIx, sign: i32) {
        if !self.nodes.live.contains(node) {
            return;
        }
        for pod in self.on_node.get(node.at()).cloned().unwrap_or_default() {
            self.count(pod, node, sign);
        }
        let Counts { counters, eligibles, .. } = &mut self.counts;
        for (_, counter) in counters.iter_mut() {
            let listed = counter
                .key
                .eligible
                .and_then(|id| eligibles.get(id))
                .is_some_and(|eligible| eligible.nodes.contains(node));
            if listed {
                counter.add_node(self.topologies.domain(counter.key.topology, node), sign);
            }
        }
    }

    fn restrict_node(&mut self, node: NodeIx, info: Option<&NodeInfo>) {
        for (_, eligible) in self.counts.eligibles.iter_mut() {
            let belongs = info.is_some_and(|info| counts::is_eligible(&eligible.key, info, &self.names));
            eligible.nodes.set(node, belongs);
        }
    }

    // ---- pods --------------------------------------------------------------------------------------------

    /// Returns the pod with this uid, if the pod is placed.
    pub(crate) fn placed(&self, uid: &str) -> Option<&Placed> {
        self.by_uid.get(uid).and_then(|id| self.pods.get(*id))
    }

    /// Returns the pods on a node.
    pub(crate) fn pods_on(&self, node: NodeIx) -> impl Iterator<Item = &Placed> {
        self.on_node.get(node.at()).into_iter().flatten().filter_map(|id| self.pods.get(*id))
    }

    /// Returns all placed pods.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &Placed> {
        self.pods.iter().map(|(_, pod)| pod)
    }

    /// Returns the lowest priority among a node's pods; `i32::MAX` for an empty node.
    pub(crate) fn lowest_priority(&self, node: NodeIx) -> i32 {
        if self.nodes.pod_count.at(node) == 0 { i32::MAX } else { self.lowest.at(node) }
    }

    /// Adds or changes a pod that is bound according to the API.
    pub(crate) fn set_pod(&mut self, info: Arc<PodInfo>) -> PodChange {
        let Some(node) = info.node else { return PodChange::Unchanged };
        let Some(id) = self.by_uid.get(&info.uid).copied() else {
            self.insert_pod(info, node, false);
            return PodChange::Added;
        };
        let Some(pod) = self.pods.get_mut(id) else { return PodChange::Unchanged };
        let old = Arc::clone(&pod.info);
        let same = pod.node == node
            && old.spec == info.spec
            && old.terminating == info.terminating
            && old.priority == info.priority;
        if same {
            let was_assumed = std::mem::take(&mut pod.assumed);
            pod.info = info;
            return if was_assumed { PodChange::Confirmed } else { PodChange::Unchanged };
        }
        let was_assumed = pod.assumed && pod.node == node;
        self.drop_pod(id);
        self.insert_pod(info, node, false);
        if was_assumed { PodChange::Confirmed } else { PodChange::Updated(old) }
    }

    /// Removes a pod that is deleted (or has ended). Returns the pod if it was placed.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let id = self.by_uid.get(uid).copied()?;
        self.drop_pod(id).map(|pod| pod.info)
    }

    /// Assumes a decided placement until the API confirms it. Returns `false` if the pod is placed already.
    pub(crate) fn assume(&mut self, info: &Arc<PodInfo>, node: NodeIx) -> bool {
        if self.by_uid.contains_key(&info.uid) || !self.nodes.live.contains(node) {
            return false;
        }
        let name = self.nodes.name(node);
        self.insert_pod(Arc::clone(info), name, true);
        true
    }

    /// Removes an assumed placement. Returns `None` if there is none, or if the API has confirmed it meanwhile.
    pub(crate) fn forget(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let id = self.by_uid.get(uid).copied()?;
        if !self.pods.get(id)?.assumed {
            return None;
        }
        self.drop_pod(id).map(|pod| pod.info)
    }

    fn insert_pod(&mut self, info: Arc<PodInfo>, node: Sym, assumed: bool) {
        let spec = self.hold_spec(&info.spec);
        let set = self.spec(spec).map_or(0, |row| row.set);
        let uid = Arc::clone(&info.uid);
        let id = self.pods.insert(Placed { info, spec, node, slot: None, assumed, position: 0, set_position: 0 });
        if let Some(pods) = self.counts.set_pods(set) {
            pods.push(id);
            let at = pods.len() - 1;
            if let Some(pod) = self.pods.get_mut(id) {
                pod.set_position = at;
            }
        }
        self.by_uid.insert(uid, id);
        match self.nodes.find(node) {
            Some(slot) => self.attach(id, slot),
            None => self.orphans.entry(node).or_default().push(id),
        }
    }

    fn drop_pod(&mut self, id: u32) -> Option<Placed> {
        if let Some(pod) = self.pods.get(id)
            && pod.slot.is_none()
            && let Some(orphans) = self.orphans.get_mut(&pod.node)
        {
            orphans.retain(|orphan| *orphan != id);
            if orphans.is_empty() {
                self.orphans.remove(&pod.node);
            }
        }
        self.detach(id);
        let pod = self.pods.remove(id)?;
        self.by_uid.remove(&pod.info.uid);
        let set = self.spec(pod.spec).map_or(0, |row| row.set);
        if let Some(pods) = self.counts.set_pods(set) {
            if pod.set_position < pods.len() {
                pods.swap_remove(pod.set_position);
            }
            if let Some(moved) = pods.get(pod.set_position).and_then(|moved| self.pods.get_mut(*moved)) {
                moved.set_position = pod.set_position;
            }
        }
        self.release_spec(pod.spec);
        Some(pod)
    }

    fn attach(&mut self, id: u32, node: NodeIx) {
        if self.on_node.len() <= node.at() {
            self.on_node.resize_with(node.at() + 1, Vec::new);
        }
        let Some(list) = self.on_node.get_mut(node.at()) else { return };
        let Some(pod) = self.pods.get_mut(id) else { return };
        pod.slot = Some(node);
        pod.position = list.len();
        list.push(id);
        let priority = pod.info.priority;
        let first = list.len() == 1;
        self.lowest.update(node, |lowest| if first { priority } else { lowest.min(priority) });
        self.nodes.charge(node, &pod.info.spec, 1);
        self.count(id, node, 1);
        self.touch(node);
    }

    fn detach(&mut self, id: u32) {
        let Some(node) = self.pods.get(id).and_then(|pod| pod.slot) else { return };
        self.count(id, node, -1);
        let Some(pod) = self.pods.get_mut(id) else { return };
        pod.slot = None;
        self.nodes.charge(node, &pod.info.spec, -1);
        let (position, priority) = (pod.position, pod.info.priority);
        if let Some(list) = self.on_node.get_mut(node.at()) {
            if position < list.len() {
                list.swap_remove(position);
            }
            if let Some(moved) = list.get(position).and_then(|moved| self.pods.get_mut(*moved)) {
                moved.position = position;
            }
            if priority == self.lowest.at(node) {
                let lowest = list.iter().filter_map(|id| self.pods.get(*id)).map(|pod| pod.info.priority).min();
                self.lowest.set(node, lowest.unwrap_or(i32::MAX));
            }
        }
        self.touch(node);
    }

    /// Adds one pod to the counts of its node's domains, or subtracts it.
    fn count(&mut self, id: u32, node: NodeIx, sign: i32) {
        let Some(pod) = self.pods.get(id) else { return };
        let Some(row) = self.specs.get(pod.spec.0) else { return };
        let topologies = &self.topologies;
        let domain = |topology| topologies.domain(topology, node);
        for (holder, weight) in &row.holders {
            if let Some(holder) = self.counts.holders.get_mut(*holder) {
                holder.add(domain(holder.key.1), weight * i64::from(sign));
            }
        }
        self.counts.count_pod(row.set, pod.info.terminating, node, sign, domain);
    }

    // ---- namespaces --------------------------------------------------------------------------------------

    /// Sets (or with `None` removes) a namespace's labels, by which terms may select.
    pub(crate) fn set_namespace(&mut self, name: Sym, labels: Option<Labels>) {
        for (set, matcher, matches) in self.counts.set_namespace(name, labels, &self.names) {
            let sign = if matches { 1 } else { -1 };
            let (counters, pods) = self.counts.affected(set, matcher);
            for id in pods {
                for counter in &counters {
                    self.count_one(*counter, id, sign);
                }
            }
            self.counts.rematch(set, matcher, matches);
        }
    }

    /// Adds one placed pod to one counter, or subtracts it.
    fn count_one(&mut self, counter: counts::CounterId, pod: u32, sign: i32) {
        let Some(pod) = self.pods.get(pod) else { return };
        let Some(node) = pod.slot else { return };
        let Some(counter) = self.counts.counters.get_mut(counter) else { return };
        let eligible = counter
            .key
            .eligible
            .and_then(|id| self.counts.eligibles.get(id))
            .is_none_or(|eligible| eligible.nodes.contains(node));
        if eligible && !(counter.key.skip_terminating && pod.info.terminating) {
            counter.add(self.topologies.domain(counter.key.topology, node), sign);
        }
    }

    // ---- the log of changed nodes ------------------------------------------------------------------------

    /// Returns the position in the log after the last change.
    pub(crate) fn sequence(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    /// Returns the nodes that changed since a position; `None` if the log does not reach back so far.
    pub(crate) fn changes_since(&self, sequence: u64) -> Option<&[NodeIx]> {
        let skip = usize::try_from(sequence.checked_sub(self.log_start)?).ok()?;
        self.log.get(skip..)
    }

    fn touch(&mut self, node: NodeIx) {
        if self.rehearsing {
            return;
        }
        let limit = 2 * self.nodes.slots() + 1024;
        if self.log.len() >= 2 * limit {
            self.log.drain(..limit);
            self.log_start += limit as u64;
        }
        self.log.push(node);
    }

    /// Collects the nodes that match `nodeSelector` and required node affinity in `out` (cleared first).
    pub(crate) fn matching_nodes(&self, spec: &PodSpec, out: &mut BitSet) {
        self.nodes.matching_spec(spec, &self.names, out);
    }
}

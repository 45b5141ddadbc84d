//! A class: pods with equal specs, with cached filter results and scores of every node.
//!
//! Cached between pods: the nodes that pass the filters of scope `Node`, and the sum of the scores of scope `Node`. Only
//! changed nodes are evaluated again, so the next pod of a class costs one evaluation per node that changed since the last
//! pod (usually one), and a search in the best bucket of scores. Filters and scores of scope `Cluster` run over all nodes
//! for each pod, on columns.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, Reserved, SpecId};
use crate::column::{Column, NodeIx};
use crate::filters::Filters;
use crate::framework::{Diagnosis, Scope, Score};
use crate::model::PodSpec;
use crate::plugin::{Plugin, Plugins};

/// Source of randomness for ties: returns a number below its argument.
pub(crate) type Choose<'a> = dyn FnMut(u32) -> u32 + 'a;

/// Memory that is reused between decisions.
#[derive(Default)]
pub(crate) struct Scratch {
    feasible: BitSet,
    failing: BitSet,
    totals: Column<i32>,
    ties: Vec<NodeIx>,
    base: BitSet,
    local: Column<i32>,
}

/// One class of pods, with the cached state of every node for its spec.
pub(crate) struct Class {
    /// Number of the pinned spec.
    pub(crate) id: SpecId,
    /// The spec.
    pub(crate) spec: Arc<PodSpec>,
    /// The compiled filters, as of the last use.
    pub(crate) filters: Filters,
    plugins: Plugins,
    scores: Vec<(i32, Box<dyn Score>)>,
    version: u64,
    seen: Option<u64>,
    fingerprint: u64,
    base: BitSet,
    local: Column<i32>,
    buckets: Option<Buckets>,
    decisions: u64,
    diagnosis: Option<(u64, Arc<Diagnosis>)>,
    /// When the class was last used, counted in decisions of its shard.
    pub(crate) last_used: u64,
}

impl Class {
    /// Compiles a class; the cluster keeps its spec pinned until [`Class::close`].
    pub(crate) fn open(plugins: Plugins, cluster: &mut Cluster, spec: &Arc<PodSpec>) -> Self {
        let id = cluster.pin(spec);
        let mut class = Self {
            id,
            spec: Arc::clone(spec),
            filters: Filters::default(),
            plugins,
            scores: Vec::new(),
            version: 0,
            seen: None,
            fingerprint: 0,
            base: BitSet::default(),
            local: Column::default(),
            buckets: None,
            decisions: 0,
            diagnosis: None,
            last_used: 0,
        };
        class.compile(cluster);
        class
    }

    /// Unpins the spec.
    pub(crate) fn close(self, cluster: &mut Cluster) {
        cluster.unpin(self.id);
    }

    fn compile(&mut self, cluster: &Cluster) {
        self.filters = Filters::compile(cluster, self.id, self.plugins.filters());
        let compiled = |plugin: &Plugin| plugin.score?(cluster, self.id).map(|score| (plugin.weight, score));
        self.scores = self.plugins.iter().filter_map(compiled).collect();
        self.version = cluster.compiled(self.id).map_or(0, |compiled| compiled.version);
        self.seen = None;
    }

    /// Brings the cached state up to date with the cluster.
    fn sync(&mut self, cluster: &mut Cluster) {
        cluster.refresh(self.id);
        if cluster.compiled(self.id).is_some_and(|compiled| compiled.version != self.version) {
            self.compile(cluster);
        }
        let cluster = &*cluster;
        let fingerprint =
            self.scores.iter().fold(0_u64, |sum, (_, score)| sum.wrapping_add(score.fingerprint(cluster)));
        let changes = self.seen.and_then(|seen| cluster.changes_since(seen));
        match changes {
            Some(changes) if fingerprint == self.fingerprint && changes.len() <= cluster.nodes.slots() / 2 + 8 => {
                for node in changes {
                    self.judge(cluster, *node);
                }
            }
            _ => self.rebuild(cluster),
        }
        self.fingerprint = fingerprint;
        self.seen = Some(cluster.sequence());
    }

    fn rebuild(&mut self, cluster: &Cluster) {
        let mut failing = BitSet::default();
        self.filters.of(Scope::Node, cluster).for_each(|filter| filter.reject(cluster, &mut failing));
        self.base.copy_from(&cluster.nodes.live);
        self.base.subtract(&failing);
        self.local.reset(cluster.nodes.slots(), 0);
        for (weight, score) in &self.scores {
            if score.scope(cluster) == Scope::Node {
                score.score(cluster, &self.base, *weight, self.local.values_mut());
            }
        }
        self.buckets = None;
    }

    fn judge(&mut self, cluster: &Cluster, node: NodeIx) {
        let fits = cluster.nodes.live.contains(node)
            && !self.filters.of(Scope::Node, cluster).any(|filter| filter.rejects(cluster, node));
        let mut total = 0;
        for (weight, score) in &self.scores {
            if score.scope(cluster) == Scope::Node {
                total += weight * score.score_node(cluster, node);
            }
        }
        self.base.set(node, fits);
        self.local.set(node, total);
        if let Some(buckets) = &mut self.buckets {
            buckets.place(node, fits.then_some(total));
        }
    }

    /// Whether a node passes every filter now, with the nominated pods in `reserved` counted as placed there.
    pub(crate) fn fits(&mut self, cluster: &mut Cluster, node: NodeIx, reserved: &Reserved) -> bool {
        self.sync(cluster);
        let expected = reserved.iter().find(|(there, _)| *there == node).map_or(&[][..], |(_, expected)| expected);
        self.base.contains(node) && self.filters.pass_beside(&mut cluster.rehearse(node), expected)
    }

    /// Returns the best node for the next pod of the class that leaves room for the nominated pods in `reserved`; `choose` breaks ties.
    pub(crate) fn select(
        &mut self,
        cluster: &mut Cluster,
        scratch: &mut Scratch,
        reserved: &Reserved,
        choose: &mut Choose<'_>,
    ) -> Option<NodeIx> {
        self.decisions += 1;
        if self.decisions > 1 {
            return self.choose(cluster, scratch, reserved, choose);
        }
        // Many classes have one pod only (a StatefulSet's pods differ in a label), so the first pod borrows its
        // columns; caching begins with the second pod.
        std::mem::swap(&mut self.base, &mut scratch.base);
        std::mem::swap(&mut self.local, &mut scratch.local);
        // The cached state from an earlier check of a nominated node is in the swapped columns.
        self.seen = None;
        let chosen = self.choose(cluster, scratch, reserved, choose);
        std::mem::swap(&mut self.base, &mut scratch.base);
        std::mem::swap(&mut self.local, &mut scratch.local);
        self.seen = None;
        chosen
    }

    fn choose(
        &mut self,
        cluster: &mut Cluster,
        scratch: &mut Scratch,
        reserved: &Reserved,
        choose: &mut Choose<'_>,
    ) -> Option<NodeIx> {
        self.sync(cluster);
        let barred = self.barred(cluster, reserved);
        let cluster = &*cluster;
        let filtered = !barred.is_empty() || self.filters.of(Scope::Cluster, cluster).next().is_some();
        let scored = self.scores.iter().any(|(_, score)| score.scope(cluster) == Scope::Cluster);
        if !filtered && !scored {
            // For the first pod of a class a scan of the column is cheaper; buckets pay off from the second pod on.
            if self.decisions == 1 {
                return best(self.local.values(), &self.base, &mut scratch.ties, choose);
            }
            let buckets = self.buckets.get_or_insert_with(|| Buckets::build(&self.base, &self.local));
            return buckets.best(choose);
        }
        scratch.feasible.copy_from(&self.base);
        if filtered {
            scratch.failing.copy_from(&barred);
            let filters = self.filters.of(Scope::Cluster, cluster);
            filters.for_each(|filter| filter.reject(cluster, &mut scratch.failing));
            scratch.feasible.subtract(&scratch.failing);
        }
        if !scored {
            return best(self.local.values(), &scratch.feasible, &mut scratch.ties, choose);
        }
        scratch.totals.copy_from(&self.local);
        for (weight, score) in &self.scores {
            if score.scope(cluster) == Scope::Cluster {
                score.score(cluster, &scratch.feasible, *weight, scratch.totals.values_mut());
            }
        }
        best(scratch.totals.values(), &scratch.feasible, &mut scratch.ties, choose)
    }

    /// Returns the nodes that fit only if their nominated pods are ignored. These nodes are few, and checked one by one.
    fn barred(&self, cluster: &mut Cluster, reserved: &Reserved) -> BitSet {
        let mut barred = BitSet::default();
        for (node, expected) in reserved.iter().filter(|(node, _)| self.base.contains(*node)) {
            barred.set(*node, !self.filters.pass_beside(&mut cluster.rehearse(*node), expected));
        }
        barred
    }

    /// Returns why no node fits. To be called only after [`Class::select`] has found none.
    pub(crate) fn diagnose(&mut self, cluster: &mut Cluster, reserved: &Reserved) -> Arc<Diagnosis> {
        if !reserved.is_empty() {
            return Arc::new(self.filters.diagnose(cluster, reserved));
        }
        let now = cluster.sequence();
        // Claims may change although the cluster's position stays the same.
        if let Some((at, diagnosis)) = &self.diagnosis
            && *at == now
            && self.spec.claims.is_none()
        {
            return Arc::clone(diagnosis);
        }
        let diagnosis = Arc::new(self.filters.diagnose(cluster, reserved));
        self.diagnosis = Some((now, Arc::clone(&diagnosis)));
        diagnosis
    }

    /// Returns all nodes that fit with their total scores, for tests.
    #[cfg(test)]
    pub(crate) fn totals(&mut self, cluster: &mut Cluster) -> Vec<(NodeIx, i32)> {
        self.sync(cluster);
        let cluster = &*cluster;
        let mut failing = BitSet::default();
        self.filters.of(Scope::Cluster, cluster).for_each(|filter| filter.reject(cluster, &mut failing));
        let mut feasible = self.base.clone();
        feasible.subtract(&failing);
        let mut totals = self.local.clone();
        for (weight, score) in self.scores.iter().filter(|(_, score)| score.scope(cluster) == Scope::Cluster) {
            score.score(cluster, &feasible, *weight, totals.values_mut());
        }
        feasible.iter().map(|node| (node, totals.at(node))).collect()
    }
}

/// Returns the feasible node with the highest total score.
fn best(totals: &[i32], feasible: &BitSet, ties: &mut Vec<NodeIx>, choose: &mut Choose<'_>) -> Option<NodeIx> {
    let mut highest = None;
    for (word, chunk) in feasible.words().iter().zip(totals.chunks(64)) {
        let top = match *word {
            0 => None,
            u64::MAX => chunk.iter().copied().max(),
            word => chunk.iter().enumerate().filter(|(at, _)| word >> at & 1 == 1).map(|(_, total)| *total).max(),
        };
        highest = highest.max(top);
    }
    let highest = highest?;
    ties.clear();
    for ((word, chunk), base) in feasible.words().iter().zip(totals.chunks(64)).zip((0_u32..).step_by(64)) {
        if *word == 0 {
            continue;
        }
        let equal = chunk.iter().enumerate().fold(0_u64, |bits, (at, total)| bits | u64::from(*total == highest) << at);
        let mut left = equal & word;
        while left != 0 {
            ties.push(NodeIx(base + left.trailing_zeros()));
            left &= left - 1;
        }
    }
    let pick = choose(u32::try_from(ties.len()).unwrap_or(u32::MAX));
    ties.get(pick as usize).copied()
}

/// Feasible nodes grouped by total score: the best nodes are found, and one node is moved, in constant time.
struct Buckets {
    rows: Vec<Vec<NodeIx>>,
    /// Per node: row + 1, or 0 when the node is in no row.
    row_of: Column<u32>,
    position: Column<u32>,
    highest: usize,
}

impl Buckets {
    fn build(feasible: &BitSet, totals: &Column<i32>) -> Self {
        let mut buckets = Self { rows: Vec::new(), row_of: Column::default(), position: Column::default(), highest: 0 };
        for node in feasible.iter() {
            buckets.place(node, Some(totals.at(node)));
        }
        buckets
    }

    fn place(&mut self, node: NodeIx, total: Option<i32>) {
        let old = self.row_of.at(node) as usize;
        let new = total.map_or(0, |total| usize::try_from(total).unwrap_or(0) + 1);
        if old == new {
            return;
        }
        if old > 0
            && let Some(row) = self.rows.get_mut(old - 1)
        {
            let at = self.position.at(node) as usize;
            if at < row.len() {
                row.swap_remove(at);
            }
            if let Some(moved) = row.get(at).copied() {
                self.position.set(moved, at as u32);
            }
        }
        self.row_of.set(node, new as u32);
        if new > 0 {
            if self.rows.len() < new {
                self.rows.resize_with(new, Vec::new);
            }
            if let Some(row) = self.rows.get_mut(new - 1) {
                self.position.set(node, row.len() as u32);
                row.push(node);
            }
            self.highest = self.highest.max(new - 1);
        }
    }

    fn best(&mut self, choose: &mut Choose<'_>) -> Option<NodeIx> {
        while self.highest > 0 && self.rows.get(self.highest).is_none_or(Vec::is_empty) {
            self.highest -= 1;
        }
        let row = self.rows.get(self.highest)?;
        if row.is_empty() {
            return None;
        }
        let pick = choose(u32::try_from(row.len()).unwrap_or(u32::MAX));
        row.get(pick as usize).copied()
    }
}

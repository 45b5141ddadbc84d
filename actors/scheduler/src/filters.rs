//! Runs the compiled filters of a class: checks single nodes, and explains why no node fits.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, Rehearsal, Reserved, SpecId};
use crate::column::NodeIx;
use crate::framework::{Diagnosis, Filter, Limit, Reason, Scope, Tally};
use crate::model::PodInfo;
use crate::table::PLUGINS;

/// Compiled filters with the numbers of their plugins, in the table's order.
#[derive(Default)]
pub(crate) struct Filters(Vec<(usize, Box<dyn Filter>)>);

impl Filters {
    /// Compiles the filters of a pinned spec.
    pub(crate) fn compile(cluster: &Cluster, spec: SpecId) -> Self {
        let compiled = PLUGINS.iter().enumerate().map(|(at, plugin)| (at, plugin.filter));
        Self(compiled.filter_map(|(at, compile)| Some((at, compile?(cluster, spec)?))).collect())
    }

    /// Returns the filters that currently have a scope.
    pub(crate) fn of(&self, scope: Scope, cluster: &Cluster) -> impl Iterator<Item = &dyn Filter> {
        self.0.iter().map(|(_, filter)| &**filter).filter(move |filter| filter.scope(cluster) == scope)
    }

    /// Whether a node passes all filters.
    pub(crate) fn pass(&self, cluster: &Cluster, node: NodeIx) -> bool {
        cluster.nodes.live.contains(node) && self.first_failing(cluster, node).is_none()
    }

    fn first_failing(&self, cluster: &Cluster, node: NodeIx) -> Option<(usize, &dyn Filter)> {
        let asked = self.0.iter().filter(|(_, filter)| filter.scope(cluster) != Scope::Skip);
        asked.map(|(at, filter)| (*at, &**filter)).find(|(_, filter)| filter.rejects(cluster, node))
    }

    /// Counts why a node fails, with its nominated pods counted as placed or else without them; returns the failing filter's plugin, or `None` if the node passes.
    pub(crate) fn explain_beside(
        &self,
        rehearsal: &mut Rehearsal<'_>,
        node: NodeIx,
        expected: &[Arc<PodInfo>],
        tally: &mut Tally,
    ) -> Option<usize> {
        if !expected.is_empty() {
            expected.iter().for_each(|pod| rehearsal.add(pod));
            let rejector = self.explain(rehearsal.cluster(), node, tally);
            rehearsal.remove_added();
            if rejector.is_some() {
                return rejector;
            }
        }
        self.explain(rehearsal.cluster(), node, tally)
    }

    fn explain(&self, cluster: &Cluster, node: NodeIx, tally: &mut Tally) -> Option<usize> {
        let (at, filter) = self.first_failing(cluster, node)?;
        let mut alone = BitSet::default();
        alone.insert(node);
        filter.explain(cluster, &alone, tally);
        Some(at)
    }

    /// Returns why no node fits a pod that must leave room for the nominated pods in `reserved`.
    pub(crate) fn diagnose(&self, cluster: &mut Cluster, reserved: &Reserved) -> Diagnosis {
        let mut diagnosis = Diagnosis { nodes: cluster.nodes.count, ..Diagnosis::default() };
        let mut left = cluster.nodes.live.clone();
        for (at, filter) in &self.0 {
            match filter.limit(cluster) {
                Limit::None => {}
                Limit::Reject(reason) => {
                    diagnosis.rejected = Some(reason);
                    diagnosis.rejectors |= 1 << at;
                    return diagnosis;
                }
                Limit::Only(nodes) => {
                    let mut others = left.clone();
                    others.subtract(&nodes);
                    left.intersect_with(&nodes);
                    let name = PLUGINS.get(*at).map_or("", |plugin| plugin.name);
                    diagnosis.tally.add_all(Reason::NotNamedBy(name), &others, false);
                    diagnosis.rejectors |= 1 << at;
                }
            }
        }
        for (node, expected) in reserved.iter().filter(|(node, _)| left.contains(*node)) {
            let rejector = self.explain_beside(&mut cluster.rehearse(*node), *node, expected, &mut diagnosis.tally);
            diagnosis.rejectors |= rejector.map_or(0, |at| 1 << at);
        }
        reserved.iter().for_each(|(node, _)| left.remove(*node));
        let mut failing = BitSet::default();
        for (at, filter) in &self.0 {
            if filter.scope(cluster) == Scope::Skip {
                continue;
            }
            failing.clear();
            filter.reject(cluster, &mut failing);
            failing.intersect_with(&left);
            if !failing.is_empty() {
                filter.explain(cluster, &failing, &mut diagnosis.tally);
                diagnosis.rejectors |= 1 << at;
                left.subtract(&failing);
            }
        }
        diagnosis
    }
}

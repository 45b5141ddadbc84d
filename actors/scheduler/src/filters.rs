//! Runs the compiled filters of a class: checks single nodes, and explains why no node fits.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, Rehearsal, Reserved, SpecId};
use crate::column::NodeIx;
use crate::framework::{CompileFilter, Diagnosis, Filter, Limit, Reason, Scope, Tally};
use crate::model::PodInfo;

/// The part of a plugin that filters nodes.
#[derive(Clone, Copy)]
pub(crate) struct FilterPlugin {
    /// The plugin's index in the scheduler's set of plugins.
    pub(crate) index: usize,
    /// The plugin's name.
    pub(crate) name: &'static str,
    /// Compiles the filter for a class of pods.
    pub(crate) compile: CompileFilter,
}

/// Compiled filters with their plugins, in the order of the plugins.
#[derive(Default)]
pub(crate) struct Filters(Vec<(FilterPlugin, Box<dyn Filter>)>);

impl Filters {
    /// Compiles the filters of a pinned spec; plugins without effect on the spec are left out.
    pub(crate) fn compile(cluster: &Cluster, spec: SpecId, plugins: impl Iterator<Item = FilterPlugin>) -> Self {
        Self(plugins.filter_map(|plugin| Some((plugin, (plugin.compile)(cluster, spec)?))).collect())
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
        asked.map(|(plugin, filter)| (plugin.index, &**filter)).find(|(_, filter)| filter.rejects(cluster, node))
    }

    /// Whether the rehearsal's node passes all filters both with and without the nominated pods in `expected` (upstream:
    /// `RunFilterPluginsWithNominatedPods`).
    pub(crate) fn pass_beside(&self, rehearsal: &mut Rehearsal<'_>, expected: &[Arc<PodInfo>]) -> bool {
        let node = rehearsal.node();
        if !expected.is_empty() {
            expected.iter().for_each(|pod| rehearsal.add(pod));
            let passes = self.pass(rehearsal.cluster(), node);
            rehearsal.remove_added();
            if !passes {
                return false;
            }
        }
        self.pass(rehearsal.cluster(), node)
    }

    /// Counts why the rehearsal's node fails, with the nominated pods in `expected` or else without them; returns the failing filter's plugin, or `None` if
    /// the node passes.
    pub(crate) fn explain_beside(
        &self,
        rehearsal: &mut Rehearsal<'_>,
        expected: &[Arc<PodInfo>],
        tally: &mut Tally,
    ) -> Option<usize> {
        let node = rehearsal.node();
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
        for (plugin, filter) in &self.0 {
            match filter.limit(cluster) {
                Limit::None => {}
                Limit::Reject(reason) => {
                    diagnosis.rejected = Some(reason);
                    diagnosis.rejectors |= 1 << plugin.index;
                    return diagnosis;
                }
                Limit::Only(nodes) => {
                    let mut others = left.clone();
                    others.subtract(&nodes);
                    left.intersect_with(&nodes);
                    diagnosis.tally.add_all(Reason::NotNamedBy(plugin.name), &others, false);
                    diagnosis.rejectors |= 1 << plugin.index;
                }
            }
        }
        for (node, expected) in reserved.iter().filter(|(node, _)| left.contains(*node)) {
            let rejector = self.explain_beside(&mut cluster.rehearse(*node), expected, &mut diagnosis.tally);
            diagnosis.rejectors |= rejector.map_or(0, |at| 1 << at);
        }
        reserved.iter().for_each(|(node, _)| left.remove(*node));
        let mut failing = BitSet::default();
        for (plugin, filter) in &self.0 {
            if filter.scope(cluster) == Scope::Skip {
                continue;
            }
            failing.clear();
            filter.reject(cluster, &mut failing);
            failing.intersect_with(&left);
            if !failing.is_empty() {
                filter.explain(cluster, &failing, &mut diagnosis.tally);
                diagnosis.rejectors |= 1 << plugin.index;
                left.subtract(&failing);
            }
        }
        diagnosis
    }
}

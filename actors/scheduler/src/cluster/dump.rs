//! Dumps the state of a cluster as text by name, so that tests can compare clusters with different histories.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::column::NodeIx;
use crate::intern::Res;
use crate::model::PodSpec;

use super::counts::{CounterKey, EligibleId};
use super::{Cluster, TopoId};

impl Cluster {
    /// Refreshes every pinned spec, as its class would do at its next pod.
    pub(crate) fn refresh_all(&mut self) {
        let pinned: Vec<u32> = self.specs.iter().filter(|(_, row)| row.pins > 0).map(|(id, _)| id).collect();
        pinned.into_iter().for_each(|id| self.refresh(super::SpecId(id)));
    }

    /// Returns the pinned specs.
    pub(crate) fn pinned(&self) -> Vec<Arc<PodSpec>> {
        self.specs.iter().filter(|(_, row)| row.pins > 0).map(|(_, row)| Arc::clone(&row.spec)).collect()
    }

    fn domain_name(&self, topology: TopoId, domain: usize) -> String {
        if topology == TopoId::NODE {
            let node = NodeIx(domain as u32 - 1);
            return self.names.text(self.nodes.name(node)).to_string();
        }
        self.names.text(self.topologies.value(topology, domain as u32)).to_string()
    }

    fn eligible_text(&self, id: Option<EligibleId>) -> String {
        id.and_then(|id| self.counts.eligibles.get(id)).map_or_else(String::new, |eligible| {
            let mut nodes: Vec<Arc<str>> =
                eligible.nodes.iter().map(|node| self.names.text(self.nodes.name(node))).collect();
            nodes.sort_unstable();
            format!("{:?} {nodes:?}", eligible.key)
        })
    }

    fn counter_name(&self, key: &CounterKey) -> String {
        let topology = self.names.text(self.topologies.key(key.topology));
        let (parts, skip) = (self.counts.parts(key.matcher), key.skip_terminating);
        format!("counter {parts:?} by {topology:?} in {} skip {skip}", self.eligible_text(key.eligible))
    }

    /// Returns all state that decisions depend on, by name.
    pub(crate) fn dump(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        for node in self.nodes.live.iter() {
            let name = self.names.text(self.nodes.name(node));
            let mut pods: Vec<&str> = self.pods_on(node).map(|pod| &*pod.info.uid).collect();
            pods.sort_unstable();
            let amounts: Vec<(i64, i64)> = [Res::CPU, Res::MEMORY, Res::EPHEMERAL]
                .into_iter()
                .map(|resource| {
                    let all = self.nodes.allocatable(resource).map_or(0, |column| column.at(node));
                    (all, self.nodes.free(node, resource))
                })
                .collect();
            let floats: Vec<f64> = self
                .nodes
                .capacity
                .iter()
                .chain(&self.nodes.used)
                .chain(&self.nodes.nonzero)
                .map(|column| column.at(node))
                .collect();
            let text = format!(
                "{:?} {amounts:?} {floats:?} pods {pods:?} {}/{} lowest {}",
                self.nodes.info(node),
                self.nodes.pod_count.at(node),
                self.nodes.pod_limit.at(node),
                self.lowest_priority(node),
            );
            out.insert(format!("node {name}"), text);
        }
        for (orphan_node, pods) in &self.orphans {
            let mut pods: Vec<&str> =
                pods.iter().filter_map(|id| self.pods.get(*id)).map(|pod| &*pod.info.uid).collect();
            pods.sort_unstable();
            out.insert(format!("orphans of {}", self.names.text(*orphan_node)), format!("{pods:?}"));
        }
        for (_, counter) in self.counts.counters.iter() {
            let counts: BTreeMap<String, u32> = (1..counter.counts().len())
                .filter(|domain| counter.count(*domain as u32) > 0)
                .map(|domain| (self.domain_name(counter.key.topology, domain), counter.count(domain as u32)))
                .collect();
            let text =
                format!("{counts:?} total {} domains {} least {:?}", counter.total, counter.domains, counter.minimum());
            out.insert(self.counter_name(&counter.key), text);
        }
        for (_, holder) in self.counts.holders.iter() {
            let sums: BTreeMap<String, i64> = (1..holder.sums().len())
                .filter(|domain| holder.sum(*domain as u32) != 0)
                .map(|domain| (self.domain_name(holder.key.1, domain), holder.sum(domain as u32)))
                .collect();
            let topology = self.names.text(self.topologies.key(holder.key.1));
            let parts = self.counts.parts(holder.key.0);
            out.insert(format!("holder {parts:?} by {topology:?} {:?}", holder.key.2), format!("{sums:?}"));
        }
        for row in self.nodes.taints().iter().filter(|row| row.count > 0) {
            let mut nodes: Vec<Arc<str>> =
                row.nodes.iter().map(|node| self.names.text(self.nodes.name(node))).collect();
            nodes.sort_unstable();
            assert_eq!(nodes.len(), row.count);
            out.insert(format!("taint {:?}", row.taint), format!("{nodes:?}"));
        }
        out
    }
}

//! NodeResourcesBalancedAllocation: nodes score more the closer their used parts of cpu and memory are.

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::framework::{MAX_SCORE, Scope, Score};
use crate::intern::Res;
use crate::model::PodSpec;
use crate::plugin::Plugin;

use super::arithmetic::{floor, fraction, whole};

/// The row of NodeResourcesBalancedAllocation in the table of plugins.
pub(crate) const ROW: Plugin =
    Plugin { name: "NodeResourcesBalancedAllocation", weight: 1, score: Some(compile), ..Plugin::NONE };

struct Balanced(Arc<PodSpec>);

/// Skips pods that request neither cpu nor memory, which would all be drawn to the same node.
fn compile(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    let spec = &cluster.spec(spec)?.spec;
    let requests = spec.request(Res::CPU) != 0 || spec.request(Res::MEMORY) != 0;
    requests.then(|| Box::new(Balanced(Arc::clone(spec))) as Box<dyn Score>)
}

#[inline(always)]
fn balance(capacity: [f64; 2], used: [f64; 2], wanted: [f64; 2]) -> i32 {
    let ([cpu, memory], [cpu_used, memory_used], [cpu_wanted, memory_wanted]) = (capacity, used, wanted);
    let apart = fraction(cpu, cpu_used + cpu_wanted) - fraction(memory, memory_used + memory_wanted);
    let deviation = (apart * 0.5).abs();
    // With one resource only there is nothing to balance.
    let deviation = if (cpu > 0.0) & (memory > 0.0) { deviation } else { 0.0 };
    whole(floor((1.0 - deviation) * f64::from(MAX_SCORE)))
}

impl Balanced {
    fn wanted(&self) -> [f64; 2] {
        [Res::CPU, Res::MEMORY].map(|resource| self.0.request(resource) as f64)
    }
}

impl Score for Balanced {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn score(&self, cluster: &Cluster, _: &BitSet, weight: i32, out: &mut [i32]) {
        let wanted = self.wanted();
        let [cpu, memory] = &cluster.nodes.capacity;
        let [cpu_used, memory_used] = &cluster.nodes.used;
        let capacity = cpu.values().iter().zip(memory.values());
        let used = cpu_used.values().iter().zip(memory_used.values());
        for (total, ((cpu, memory), (cpu_used, memory_used))) in out.iter_mut().zip(capacity.zip(used)) {
            *total += weight * balance([*cpu, *memory], [*cpu_used, *memory_used], wanted);
        }
    }

    fn score_node(&self, cluster: &Cluster, node: NodeIx) -> i32 {
        let capacity = cluster.nodes.capacity.each_ref().map(|column| column.at(node));
        let used = cluster.nodes.used.each_ref().map(|column| column.at(node));
        balance(capacity, used, self.wanted())
    }
}

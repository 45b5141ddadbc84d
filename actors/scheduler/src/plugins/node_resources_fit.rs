//! NodeResourcesFit: a pod needs its requests and a pod slot free; emptier nodes score more
//! (strategy LeastAllocated over cpu and memory, upstream's default).

use std::sync::Arc;

use crate::bits::BitSet;
use crate::cluster::{Cluster, SpecId};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, Reason, Scope, Score, Tally};
use crate::model::{NodeInfo, PodInfo, PodSpec};
use crate::plugin::Plugin;

use super::arithmetic::{floor, unused, whole};

/// The row of NodeResourcesFit in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "NodeResourcesFit",
    weight: 1,
    filter: Some(compile_filter),
    score: Some(compile_score),
    events: kind::NODE_ADDED | kind::NODE_CHANGED | kind::POD_CHANGED | kind::POD_GONE | kind::ITSELF,
    hint: Some(hint),
    ..Plugin::NONE
};

const TOO_MANY_PODS: Reason = Reason::Text("Too many pods");

struct Fit(Arc<PodSpec>);

fn compile(cluster: &Cluster, spec: SpecId) -> Option<Fit> {
    Some(Fit(Arc::clone(&cluster.spec(spec)?.spec)))
}

fn compile_filter(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    Some(Box::new(compile(cluster, spec)?))
}

fn compile_score(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    Some(Box::new(compile(cluster, spec)?))
}

/// Marks with 1 every place where `capacity - used` is below `wanted`. The sign bit decides, so that the loop
/// needs no comparison of 64-bit integers, which plain x86-64 lacks.
#[inline(always)]
fn mark(capacity: &[i64], used: &[i64], wanted: i64, marks: &mut [u64; 64]) {
    for ((capacity, used), mark) in capacity.iter().zip(used).zip(marks.iter_mut()) {
        *mark |= ((capacity - used - wanted) as u64) >> 63;
    }
}

impl Filter for Fit {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        let nodes = &cluster.nodes;
        let none = [0_i64; 64];
        let mut columns = vec![(nodes.pod_limit.values(), nodes.pod_count.values(), 1)];
        for (resource, amount) in &self.0.requests {
            let capacity = nodes.allocatable(*resource).map_or(&[][..], |column| column.values());
            let used = nodes.requested(*resource).map_or(&[][..], |column| column.values());
            columns.push((capacity, used, *amount));
        }
        let slots = nodes.slots();
        let words = out.words_mut();
        if words.len() < slots.div_ceil(64) {
            words.resize(slots.div_ceil(64), 0);
        }
        for (word, start) in words.iter_mut().zip((0..slots).step_by(64)) {
            let end = (start + 64).min(slots);
            let mut marks = [0_u64; 64];
            for (capacity, used, wanted) in &columns {
                let capacity = capacity.get(start..end).unwrap_or(&none);
                let used = used.get(start..end).unwrap_or(&none);
                mark(capacity, used, *wanted, &mut marks);
            }
            let packed = marks.iter().enumerate().fold(0, |bits, (at, mark)| bits | mark << at);
            *word |= packed;
        }
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        let nodes = &cluster.nodes;
        nodes.pod_count.at(node) + 1 > nodes.pod_limit.at(node)
            || self.0.requests.iter().any(|(resource, amount)| *amount > nodes.free(node, *resource))
    }

    fn explain(&self, cluster: &Cluster, failed: &BitSet, tally: &mut Tally) {
        let nodes = &cluster.nodes;
        for node in failed.iter() {
            if nodes.pod_count.at(node) + 1 > nodes.pod_limit.at(node) {
                tally.add(TOO_MANY_PODS, node, true);
            }
            for (resource, amount) in &self.0.requests {
                if *amount > nodes.free(node, *resource) {
                    let whole = nodes.allocatable(*resource).map_or(0, |column| column.at(node));
                    tally.add(Reason::Insufficient(*resource), node, *amount <= whole);
                }
            }
        }
    }
}

#[inline(always)]
fn least_allocated(capacity: [f64; 2], used: [f64; 2], wanted: [f64; 2]) -> i32 {
    let ([cpu, memory], [cpu_used, memory_used], [cpu_wanted, memory_wanted]) = (capacity, used, wanted);
    let sum = unused(cpu, cpu_used + cpu_wanted) + unused(memory, memory_used + memory_wanted);
    let mean = floor(sum * 0.5);
    // A resource the node does not have takes no part in the mean.
    let both = (cpu > 0.0) & (memory > 0.0);
    whole(if both { mean } else { sum })
}

impl Fit {
    fn wanted(&self) -> [f64; 2] {
        self.0.nonzero.map(|amount| amount as f64)
    }
}

impl Score for Fit {
    fn scope(&self, _: &Cluster) -> Scope {
        Scope::Node
    }

    fn score(&self, cluster: &Cluster, _: &BitSet, weight: i32, out: &mut [i32]) {
        let wanted = self.wanted();
        let [cpu, memory] = &cluster.nodes.capacity;
        let [cpu_used, memory_used] = &cluster.nodes.nonzero;
        let capacity = cpu.values().iter().zip(memory.values());
        let used = cpu_used.values().iter().zip(memory_used.values());
        for (total, ((cpu, memory), (cpu_used, memory_used))) in out.iter_mut().zip(capacity.zip(used)) {
            *total += weight * least_allocated([*cpu, *memory], [*cpu_used, *memory_used], wanted);
        }
    }

    fn score_node(&self, cluster: &Cluster, node: NodeIx) -> i32 {
        let capacity = cluster.nodes.capacity.each_ref().map(|column| column.at(node));
        let used = cluster.nodes.nonzero.each_ref().map(|column| column.at(node));
        least_allocated(capacity, used, self.wanted())
    }
}

/// Whether the pod would fit on the node if the node were empty.
fn fits_empty(pod: &PodSpec, node: &NodeInfo) -> bool {
    node.pods > 0 && pod.requests.iter().all(|(resource, amount)| *amount <= node.allocatable(*resource))
}

fn hint(_: &Cluster, pod: &PodInfo, event: &Event<'_>) -> bool {
    match event {
        Event::PodGone(_) => true,
        Event::PodChanged { old, new } => {
            let requests = &pod.spec.requests;
            requests.iter().any(|(resource, _)| old.spec.request(*resource) > new.spec.request(*resource))
        }
        Event::Itself { old, new } => {
            old.spec.requests.iter().any(|(resource, amount)| *amount > new.spec.request(*resource))
        }
        Event::NodeAdded(node) => fits_empty(&pod.spec, node),
        Event::NodeChanged { old, new } => {
            let grew = new.pods > old.pods
                || pod
                    .spec
                    .requests
                    .iter()
                    .any(|(resource, _)| new.allocatable(*resource) > old.allocatable(*resource));
            grew && fits_empty(&pod.spec, new)
        }
        _ => false,
    }
}

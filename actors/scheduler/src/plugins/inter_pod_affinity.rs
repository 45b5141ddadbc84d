//! InterPodAffinity: required affinity and anti-affinity, and preferred terms, of the pod and of placed pods.
//!
//! The plugin counts nothing itself: [`crate::cluster::Counts`] keeps, per domain, how many placed pods each of the
//! class's terms matches, and which terms of placed pods match the class.

use crate::bits::BitSet;
use crate::cluster::{Cluster, Compiled, Counter, HolderKind, SetId, SpecId};
use crate::column::NodeIx;
use crate::event::{Event, kind};
use crate::framework::{Filter, MAX_SCORE, Reason, Scope, Score, Tally};
use crate::labels::{Labels, Selector};
use crate::model::{Matcher, PodInfo, PodTerm};
use crate::plugin::Plugin;

/// The row of InterPodAffinity in the table of plugins.
pub(crate) const ROW: Plugin = Plugin {
    name: "InterPodAffinity",
    weight: 2,
    filter: Some(compile_filter),
    score: Some(compile_score),
    events: kind::NODE_ADDED | kind::NODE_CHANGED | kind::POD_ASSIGNED | kind::POD_CHANGED | kind::POD_GONE,
    hint: Some(hint),
    ..Plugin::NONE
};

const AFFINITY: Reason = Reason::Text("node(s) didn't match pod affinity rules");
const ANTI_AFFINITY: Reason = Reason::Text("node(s) didn't match pod anti-affinity rules");
const REPELLED: Reason = Reason::Text("node(s) didn't satisfy existing pods anti-affinity rules");

struct InterPodAffinity {
    spec: SpecId,
    set: SetId,
}

fn compile(cluster: &Cluster, spec: SpecId) -> Option<InterPodAffinity> {
    Some(InterPodAffinity { spec, set: cluster.spec(spec)?.set })
}

fn compile_filter(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Filter>> {
    Some(Box::new(compile(cluster, spec)?))
}

fn compile_score(cluster: &Cluster, spec: SpecId) -> Option<Box<dyn Score>> {
    Some(Box::new(compile(cluster, spec)?))
}

impl InterPodAffinity {
    fn compiled<'a>(&self, cluster: &'a Cluster) -> Option<&'a Compiled> {
        cluster.compiled(self.spec)
    }

    /// Whether the first pod of a group that is affine to itself may go anywhere: no pod matches yet.
    fn starts_group(cluster: &Cluster, compiled: &Compiled) -> bool {
        compiled.affine_to_itself
            && compiled.affinity.iter().filter_map(|id| cluster.counter(*id)).all(|counter| counter.total == 0)
    }

    fn judge(&self, cluster: &Cluster, node: NodeIx) -> Option<Reason> {
        let compiled = self.compiled(cluster)?;
        let mut found = true;
        for counter in compiled.affinity.iter().filter_map(|id| cluster.counter(*id)) {
            let domain = cluster.topologies.domain(counter.key.topology, node);
            if domain == crate::cluster::NOWHERE {
                return Some(AFFINITY);
            }
            found &= counter.count(domain) > 0;
        }
        if !found && !Self::starts_group(cluster, compiled) {
            return Some(AFFINITY);
        }
        for counter in compiled.anti_affinity.iter().filter_map(|id| cluster.counter(*id)) {
            if counter.count(cluster.topologies.domain(counter.key.topology, node)) > 0 {
                return Some(ANTI_AFFINITY);
            }
        }
        for holder in cluster.counts.holders_over(self.set, HolderKind::Repels) {
            if holder.sum(cluster.topologies.domain(holder.key.1, node)) > 0 {
                return Some(REPELLED);
            }
        }
        None
    }
}

/// Adds every node whose domain passes `test` to `out`; nodes without the label have domain 0.
fn by_domain(cluster: &Cluster, counter: &Counter, out: &mut BitSet, test: impl Fn(u32, u32) -> bool) {
    let counts = counter.counts();
    let domains = cluster.topologies.column(counter.key.topology);
    let mut failing = BitSet::default();
    failing.fill(domains.iter().map(|domain| {
        let count = counts.get(*domain as usize).copied().unwrap_or(0);
        test(*domain, count)
    }));
    out.union_with(&failing);
}

impl Filter for InterPodAffinity {
    fn scope(&self, cluster: &Cluster) -> Scope {
        let own = self
            .compiled(cluster)
            .is_some_and(|compiled| !compiled.affinity.is_empty() || !compiled.anti_affinity.is_empty());
        let repelled = cluster.counts.holders_over(self.set, HolderKind::Repels).next().is_some();
        if own || repelled { Scope::Cluster } else { Scope::Skip }
    }

    fn reject(&self, cluster: &Cluster, out: &mut BitSet) {
        let Some(compiled) = self.compiled(cluster) else { return };
        let starts = !compiled.affinity.is_empty() && Self::starts_group(cluster, compiled);
        for counter in compiled.affinity.iter().filter_map(|id| cluster.counter(*id)) {
            by_domain(cluster, counter, out, |domain, count| domain == 0 || (count == 0 && !starts));
        }
        for counter in compiled.anti_affinity.iter().filter_map(|id| cluster.counter(*id)) {
            if counter.total > 0 {
                by_domain(cluster, counter, out, |_, count| count > 0);
            }
        }
        let mut failing = BitSet::default();
        for holder in cluster.counts.holders_over(self.set, HolderKind::Repels) {
            let sums = holder.sums();
            let domains = cluster.topologies.column(holder.key.1);
            failing.fill(domains.iter().map(|domain| sums.get(*domain as usize).is_some_and(|sum| *sum > 0)));
            out.union_with(&failing);
        }
    }

    fn rejects(&self, cluster: &Cluster, node: NodeIx) -> bool {
        self.judge(cluster, node).is_some()
    }

    fn explain(&self, cluster: &Cluster, failed: &BitSet, tally: &mut Tally) {
        for node in failed.iter() {
            if let Some(reason) = self.judge(cluster, node) {
                tally.add(reason, node, reason != AFFINITY);
            }
        }
    }
}

impl Score for InterPodAffinity {
    fn scope(&self, cluster: &Cluster) -> Scope {
        let own = self.compiled(cluster).is_some_and(|compiled| {
            let counters = compiled.preferred.iter().filter_map(|(id, _)| cluster.counter(*id));
            counters.into_iter().any(|counter| counter.total > 0)
        });
        let weighed = cluster.counts.holders_over(self.set, HolderKind::Weighs).next().is_some();
        if own || weighed { Scope::Cluster } else { Scope::Skip }
    }

    fn score(&self, cluster: &Cluster, feasible: &BitSet, weight: i32, out: &mut [i32]) {
        let Some(compiled) = self.compiled(cluster) else { return };
        let mut sums = vec![0_i64; out.len()];
        for (counter, term_weight) in
            compiled.preferred.iter().filter_map(|(id, weight)| cluster.counter(*id).map(|counter| (counter, weight)))
        {
            let counts = counter.counts();
            let domains = cluster.topologies.column(counter.key.topology);
            for (sum, domain) in sums.iter_mut().zip(domains) {
                *sum += term_weight * i64::from(counts.get(*domain as usize).copied().unwrap_or(0));
            }
        }
        for holder in cluster.counts.holders_over(self.set, HolderKind::Weighs) {
            let weights = holder.sums();
            let domains = cluster.topologies.column(holder.key.1);
            for (sum, domain) in sums.iter_mut().zip(domains) {
                *sum += weights.get(*domain as usize).copied().unwrap_or(0);
            }
        }
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for sum in feasible.iter().filter_map(|node| sums.get(node.at())) {
            least = least.min(*sum);
            most = most.max(*sum);
        }
        if most <= least {
            return;
        }
        let range = (most - least) as f64;
        for (total, sum) in out.iter_mut().zip(sums) {
            *total += weight * (f64::from(MAX_SCORE) * ((sum - least) as f64 / range)) as i32;
        }
    }
}

/// Whether a pod matches all terms, for hints about one other pod. Namespace selectors are taken to match,
/// which at worst wakes a pod in vain.
fn all_match(cluster: &Cluster, terms: &[PodTerm], pod: &PodInfo) -> bool {
    let matches = |matcher: &Matcher, labels: &Labels| {
        let here = matcher.namespaces.contains(&pod.spec.namespace) || matcher.namespace_selector != Selector::Nothing;
        here && matcher.selector.matches(labels, &cluster.names)
    };
    !terms.is_empty() && terms.iter().all(|term| matches(&term.matcher, &pod.spec.labels))
}

fn hint(cluster: &Cluster, pod: &PodInfo, event: &Event<'_>) -> bool {
    let (affinity, anti) = (&pod.spec.affinity, &pod.spec.anti_affinity);
    match event {
        Event::PodAssigned(new) => all_match(cluster, affinity, new),
        Event::PodChanged { old, new } => {
            let (was, is) = (all_match(cluster, affinity, old), all_match(cluster, affinity, new));
            let (hated, hates) = (all_match(cluster, anti, old), all_match(cluster, anti, new));
            (!was && is) || (hated && !hates) || old.spec.labels != new.spec.labels
        }
        // The deleted pod's own anti-affinity may have rejected this pod, which upstream's hint overlooks.
        Event::PodGone(gone) => all_match(cluster, anti, gone) || !gone.spec.anti_affinity.is_empty(),
        Event::NodeAdded(node) => {
            !anti.is_empty() || affinity.iter().any(|term| node.labels.get(term.topology).is_some())
        }
        Event::NodeChanged { old, new } => affinity.iter().chain(anti).any(|term| {
            let (was, is) = (old.labels.get(term.topology), new.labels.get(term.topology));
            was != is
        }),
        _ => false,
    }
}

//! What would be if pods came to a node or left it.

use std::sync::Arc;

use crate::column::NodeIx;
use crate::filters::Filters;
use crate::model::{PodInfo, Uid};

use super::Cluster;

/// Pods come to one node and leave it without anybody noticing: what classes know stays right, because all is as before when this is dropped.
pub(crate) struct Rehearsal<'a> {
    cluster: &'a mut Cluster,
    node: NodeIx,
    away: Vec<Uid>,
    come: Vec<Uid>,
}

impl Cluster {
    /// Begins a rehearsal on a node.
    pub(crate) fn rehearse(&mut self, node: NodeIx) -> Rehearsal<'_> {
        self.rehearsing = true;
        Rehearsal { cluster: self, node, away: Vec::new(), come: Vec::new() }
    }
}

impl Rehearsal<'_> {
    /// The cluster as it would be. What a class learns from it would be wrong afterwards.
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        self.cluster
    }

    /// Takes a pod off the node.
    pub(crate) fn take(&mut self, uid: &Uid) {
        let here = self.cluster.placed(uid).is_some_and(|pod| pod.slot == Some(self.node));
        if let Some(id) = self.cluster.by_uid.get(uid).copied().filter(|_| here) {
            self.cluster.detach(id);
            self.away.push(Arc::clone(uid));
        }
    }

    /// Puts a pod back that was taken off.
    pub(crate) fn put_back(&mut self, uid: &Uid) {
        let Some(at) = self.away.iter().position(|away| away == uid) else { return };
        self.away.swap_remove(at);
        if let Some(id) = self.cluster.by_uid.get(uid).copied() {
            self.cluster.attach(id, self.node);
        }
    }

    /// Lets a pod come that has no node.
    pub(crate) fn come(&mut self, pod: &Arc<PodInfo>) {
        if self.cluster.assume(pod, self.node) {
            self.come.push(Arc::clone(&pod.uid));
        }
    }

    /// Lets all go that came.
    pub(crate) fn go(&mut self) {
        for uid in std::mem::take(&mut self.come) {
            self.cluster.forget(&uid);
        }
    }

    /// Whether a pod of these filters fits: beside those that are expected, and without them (upstream: `RunFilterPluginsWithNominatedPods`).
    pub(crate) fn fits(&mut self, filters: &Filters, expected: &[Arc<PodInfo>]) -> bool {
        if !expected.is_empty() {
            expected.iter().for_each(|pod| self.come(pod));
            let fits = filters.pass(self.cluster, self.node);
            self.go();
            if !fits {
                return false;
            }
        }
        filters.pass(self.cluster, self.node)
    }
}

impl Drop for Rehearsal<'_> {
    fn drop(&mut self) {
        self.go();
        for uid in std::mem::take(&mut self.away).iter().rev() {
            if let Some(id) = self.cluster.by_uid.get(uid).copied() {
                self.cluster.attach(id, self.node);
            }
        }
        self.cluster.rehearsing = false;
    }
}

//! Tentative additions and removals of pods on one node.

use std::sync::Arc;

use crate::column::NodeIx;
use crate::model::{PodInfo, Uid};

use super::Cluster;

/// Tentative changes of the pods on one node. Dropping the rehearsal undoes the changes, and the log does not record them, so cached results of classes stay
/// valid.
pub(crate) struct Rehearsal<'a> {
    cluster: &'a mut Cluster,
    node: NodeIx,
    removed: Vec<Uid>,
    added: Vec<Uid>,
}

impl Cluster {
    /// Begins a rehearsal on a node.
    pub(crate) fn rehearse(&mut self, node: NodeIx) -> Rehearsal<'_> {
        self.rehearsing = true;
        Rehearsal { cluster: self, node, removed: Vec::new(), added: Vec::new() }
    }
}

impl Rehearsal<'_> {
    /// Returns the cluster with the tentative changes. Classes must not cache results from this state.
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        self.cluster
    }

    /// Returns the node.
    pub(crate) fn node(&self) -> NodeIx {
        self.node
    }

    /// Removes a pod from the node.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        let here = self.cluster.placed(uid).is_some_and(|pod| pod.slot == Some(self.node));
        if let Some(id) = self.cluster.by_uid.get(uid).copied().filter(|_| here) {
            self.cluster.detach(id);
            self.removed.push(Arc::clone(uid));
        }
    }

    /// Restores a removed pod.
    pub(crate) fn put_back(&mut self, uid: &Uid) {
        let Some(at) = self.removed.iter().position(|removed| removed == uid) else { return };
        self.removed.swap_remove(at);
        if let Some(id) = self.cluster.by_uid.get(uid).copied() {
            self.cluster.attach(id, self.node);
        }
    }

    /// Adds an unplaced pod to the node.
    pub(crate) fn add(&mut self, pod: &Arc<PodInfo>) {
        if self.cluster.assume(pod, self.node) {
            self.added.push(Arc::clone(&pod.uid));
        }
    }

    /// Removes every added pod.
    pub(crate) fn remove_added(&mut self) {
        for uid in std::mem::take(&mut self.added) {
            self.cluster.forget(&uid);
        }
    }
}

impl Drop for Rehearsal<'_> {
    fn drop(&mut self) {
        self.remove_added();
        for uid in std::mem::take(&mut self.removed).iter().rev() {
            if let Some(id) = self.cluster.by_uid.get(uid).copied() {
                self.cluster.attach(id, self.node);
            }
        }
        self.cluster.rehearsing = false;
    }
}

//! Nominations of pods to nodes: those in the API (`status.nominatedNodeName`), and those that this process has decided and the API does not show
//! yet (upstream: `backend/queue/nominator.go`).
//!
//! Room that victims free is reserved for the nominated pod: pods of the same or lower priority fit on the node only if the nominated pod fits as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;

use crate::column::NodeIx;
use crate::intern::Sym;
use crate::map::Map;
use crate::model::{PodInfo, Uid};

use super::Cluster;

/// The source of a nomination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The API shows the nomination.
    Api,
    /// This process has decided the nomination. Holds the pod's revision with the written nomination, or `None` before the write; older states of
    /// the pod do not revoke the nomination.
    Local(Option<u64>),
}

/// One pod's nomination.
#[derive(Clone, Debug)]
struct Nominated {
    info: Arc<PodInfo>,
    node: Sym,
    /// The victims, if this process has decided the nomination.
    victims: Vec<Uid>,
    source: Source,
}

/// Every nomination.
#[derive(Default)]
pub(crate) struct Nominations {
    pods: Map<Uid, Nominated>,
    on: BTreeMap<Sym, Vec<Uid>>,
}

/// Nodes with nominated pods that a certain pod must leave room for.
pub(crate) type Reserved = Vec<(NodeIx, Vec<Arc<PodInfo>>)>;

impl Nominations {
    /// Whether no pod is nominated.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the uid of every nominated pod.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    /// Applies the API's state of a pod without a node. Returns the pod's former state if its former nomination has ended.
    pub(crate) fn see(&mut self, info: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let Some(known) = self.pods.get_mut(&info.uid) else {
            if let Some(node) = info.nominated {
                self.insert(info, node, Vec::new(), Source::Api);
            }
            return None;
        };
        let older = match known.source {
            Source::Api => false,
            Source::Local(written) => written.is_none_or(|written| info.version < written),
        };
        if older || info.nominated == Some(known.node) {
            known.info = Arc::clone(info);
            if !older {
                known.source = Source::Api;
            }
            return None;
        }
        let over = self.remove(&info.uid);
        if let Some(node) = info.nominated {
            self.insert(info, node, Vec::new(), Source::Api);
        }
        over
    }

    /// Nominates a pod to a node from which `victims` are evicted.
    pub(crate) fn decide(&mut self, info: &Arc<PodInfo>, node: Sym, victims: Vec<Uid>) {
        self.remove(&info.uid);
        self.insert(info, node, victims, Source::Local(None));
    }

    /// Records that a nomination of this process is written, with the pod's revision.
    pub(crate) fn written(&mut self, uid: &str, revision: u64) {
        if let Some(known) = self.pods.get_mut(uid)
            && known.source == Source::Local(None)
        {
            known.source = Source::Local(Some(revision));
        }
    }

    /// Forgets a pod's victims because their eviction is not certain: the pod may preempt again.
    pub(crate) fn waits_for_nobody(&mut self, uid: &str) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.victims.clear();
        }
    }

    /// Removes a nomination of this process that is not certainly written; from then on the API's state counts.
    pub(crate) fn withdraw(&mut self, uid: &str) {
        if self.pods.get(uid).is_some_and(|known| known.source == Source::Local(None)) {
            self.remove(uid);
        }
    }

    /// Removes a pod's nomination. Returns the pod's last state.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let known = self.pods.remove(uid)?;
        if let Some(uids) = self.on.get_mut(&known.node) {
            uids.retain(|other| **other != *uid);
            if uids.is_empty() {
                self.on.remove(&known.node);
            }
        }
        Some(known.info)
    }

    fn insert(&mut self, info: &Arc<PodInfo>, node: Sym, victims: Vec<Uid>, source: Source) {
        self.on.entry(node).or_default().push(Arc::clone(&info.uid));
        self.pods.insert(Arc::clone(&info.uid), Nominated { info: Arc::clone(info), node, victims, source });
    }

    /// Returns the node that a pod is nominated to.
    pub(crate) fn node_of(&self, uid: &str) -> Option<Sym> {
        self.pods.get(uid).map(|known| known.node)
    }

    /// Returns a pod's victims, if this process has decided its nomination.
    pub(crate) fn victims_of(&self, uid: &str) -> &[Uid] {
        self.pods.get(uid).map_or(&[], |known| &known.victims)
    }

    /// Returns the pods that are nominated to a node.
    pub(crate) fn on(&self, node: Sym) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.on.get(&node).into_iter().flatten().filter_map(|uid| self.pods.get(uid)).map(|known| &known.info)
    }
}

impl Cluster {
    /// Returns the pods nominated to a node that `pod` must leave room for: other unplaced pods of the same or higher priority
    /// (upstream: `addGENominatedPods`).
    pub(crate) fn expected(&self, pod: &PodInfo, node: Sym) -> Vec<Arc<PodInfo>> {
        if self.nominations.is_empty() || seeded_bug!("nomination_ignored") {
            return Vec::new();
        }
        let comes_first = |other: &&Arc<PodInfo>| {
            other.priority >= pod.priority && other.uid != pod.uid && self.placed(&other.uid).is_none()
        };
        self.nominations.on(node).filter(comes_first).cloned().collect()
    }

    /// Returns [`Cluster::expected`] for every node with such nominated pods.
    pub(crate) fn reserved(&self, pod: &PodInfo) -> Reserved {
        if self.nominations.is_empty() {
            return Reserved::new();
        }
        let nodes = self.nominations.on.keys().filter_map(|name| Some((self.nodes.find(*name)?, *name)));
        let each = nodes.map(|(node, name)| (node, self.expected(pod, name)));
        each.filter(|(_, expected)| !expected.is_empty()).collect()
    }

    /// Whether a pod still waits for victims: one of its victims is not terminating yet, or a preempted pod of lower priority is still terminating on
    /// its nominated node (upstream: `PodEligibleToPreemptOthers`, and the gate of asynchronous preemption).
    pub(crate) fn waits_for_victims(&self, pod: &PodInfo) -> bool {
        let Some(node) = self.nominations.node_of(&pod.uid).and_then(|name| self.nodes.find(name)) else {
            return false;
        };
        let victims = self.nominations.victims_of(&pod.uid).iter().filter_map(|uid| self.placed(uid));
        victims.into_iter().any(|victim| !victim.info.terminating)
            || self
                .pods_on(node)
                .any(|other| other.info.priority < pod.priority && other.info.terminating && other.info.preempted)
    }
}

//! Which pods are expected on which nodes: what the API says (`status.nominatedNodeName`), and what was decided here and is not seen from the
//! API yet (upstream: `backend/queue/nominator.go`).
//!
//! Room that victims leave belongs to who is nominated: others of its priority or below fit on the node only beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;

use crate::column::NodeIx;
use crate::intern::Sym;
use crate::map::Map;
use crate::model::{PodInfo, Uid};

use super::Cluster;

/// Where a nomination comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The API has it.
    Api,
    /// It was decided here. What the API had of the pod before this revision does not speak of it; `None` while it is not written.
    Here(Option<u64>),
}

/// One pod's nomination.
#[derive(Clone, Debug)]
struct Nominated {
    info: Arc<PodInfo>,
    node: Sym,
    /// Who was asked to leave for it, as far as it was decided here.
    victims: Vec<Uid>,
    source: Source,
}

/// Every nomination.
#[derive(Default)]
pub(crate) struct Nominations {
    pods: Map<Uid, Nominated>,
    on: BTreeMap<Sym, Vec<Uid>>,
}

/// Nodes with pods that are expected there and that some pod has to leave room for.
pub(crate) type Reserved = Vec<(NodeIx, Vec<Arc<PodInfo>>)>;

impl Nominations {
    /// Whether nobody is expected anywhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Every pod that is expected somewhere.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    /// Takes in what the API has of a pod without a node. Returns the pod as it was nominated before, if that is over.
    pub(crate) fn see(&mut self, info: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let Some(known) = self.pods.get_mut(&info.uid) else {
            if let Some(node) = info.nominated {
                self.insert(info, node, Vec::new(), Source::Api);
            }
            return None;
        };
        let older = match known.source {
            Source::Api => false,
            Source::Here(written) => written.is_none_or(|written| info.version < written),
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

    /// Expects a pod on a node, for which `victims` are asked to leave.
    pub(crate) fn decide(&mut self, info: &Arc<PodInfo>, node: Sym, victims: Vec<Uid>) {
        self.remove(&info.uid);
        self.insert(info, node, victims, Source::Here(None));
    }

    /// What was decided here is written, at this revision of the pod.
    pub(crate) fn written(&mut self, uid: &str, revision: u64) {
        if let Some(known) = self.pods.get_mut(uid)
            && known.source == Source::Here(None)
        {
            known.source = Source::Here(Some(revision));
        }
    }

    /// Nobody was asked to leave for a pod, as far as is certain: it may have others leave anew.
    pub(crate) fn waits_for_nobody(&mut self, uid: &str) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.victims.clear();
        }
    }

    /// What was decided here is not written, or perhaps not: from now on the API has the word.
    pub(crate) fn withdraw(&mut self, uid: &str) {
        if self.pods.get(uid).is_some_and(|known| known.source == Source::Here(None)) {
            self.remove(uid);
        }
    }

    /// Expects a pod nowhere any more.
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

    /// Where a pod is expected.
    pub(crate) fn node_of(&self, uid: &str) -> Option<Sym> {
        self.pods.get(uid).map(|known| known.node)
    }

    /// Who was asked to leave for a pod, as far as it was decided here.
    pub(crate) fn victims_of(&self, uid: &str) -> &[Uid] {
        self.pods.get(uid).map_or(&[], |known| &known.victims)
    }

    /// The pods that are expected on a node.
    pub(crate) fn on(&self, node: Sym) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.on.get(&node).into_iter().flatten().filter_map(|uid| self.pods.get(uid)).map(|known| &known.info)
    }
}

impl Cluster {
    /// The pods expected on a node that a pod has to leave room for: others, of its priority at least, without a node
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

    /// The same of all nodes that there are.
    pub(crate) fn reserved(&self, pod: &PodInfo) -> Reserved {
        if self.nominations.is_empty() {
            return Reserved::new();
        }
        let nodes = self.nominations.on.keys().filter_map(|name| Some((self.nodes.find(*name)?, *name)));
        let each = nodes.map(|(node, name)| (node, self.expected(pod, name)));
        each.filter(|(_, expected)| !expected.is_empty()).collect()
    }

    /// Whether somebody still has to leave the node that a pod is nominated to: who was asked to has not begun, or is on its way
    /// (upstream: `PodEligibleToPreemptOthers`, and the gate of asynchronous preemption).
    pub(crate) fn waits_for_victims(&self, pod: &PodInfo) -> bool {
        let Some(node) = self.nominations.node_of(&pod.uid).and_then(|name| self.nodes.find(name)) else {
            return false;
        };
        let asked = self.nominations.victims_of(&pod.uid).iter().filter_map(|uid| self.placed(uid));
        asked.into_iter().any(|victim| !victim.info.terminating)
            || self
                .pods_on(node)
                .any(|other| other.info.priority < pod.priority && other.info.terminating && other.info.preempted)
    }
}

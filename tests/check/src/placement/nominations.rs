//! Pods nominated to nodes, and the pods preempted for them.

use super::facts::Pod;

/// A pod and its nominated node.
pub(super) struct Nominee {
    pub(super) pod: Pod,
    node: String,
    since: u64,
    /// The revision at which the nomination ended: it was removed, the pod got its node, or the pod was deleted.
    until: Option<u64>,
}

/// A binding that leaves a nominee no room. The rule is broken if the nominee stays nominated for the lag, or gets that node later; otherwise the
/// scheduler may have known a later state than the log shows.
pub(super) struct Claim {
    pub(super) revision: u64,
    pub(super) pod: Pod,
    pub(super) what: String,
    nominee: String,
    node: String,
}

/// The nominated pods of each node, and the preemptions made for them.
#[derive(Default)]
pub(super) struct Nominations {
    nominees: Vec<Nominee>,
    claims: Vec<Claim>,
}

impl Nominations {
    /// Applies a written pod.
    pub(super) fn see(&mut self, pod: &Pod, revision: u64) {
        let node = pod.nominated.as_ref().filter(|_| pod.node.is_none() && !pod.ended);
        let mut known =
            self.nominees.iter_mut().filter(|nominee| nominee.pod.uid == pod.uid && nominee.until.is_none());
        match (known.next(), node) {
            (Some(nominee), Some(node)) if nominee.node == *node => nominee.pod = pod.clone(),
            (nominee, node) => {
                if let Some(nominee) = nominee {
                    nominee.until = Some(revision);
                    let there = pod.node.as_ref() == Some(&nominee.node);
                    self.claims.retain(|claim| claim.nominee != pod.uid || (there && claim.node == nominee.node));
                }
                if let Some(node) = node {
                    let (pod, node) = (pod.clone(), node.clone());
                    self.nominees.push(Nominee { pod, node, since: revision, until: None });
                }
            }
        }
    }

    /// Removes a deleted pod.
    pub(super) fn gone(&mut self, uid: &str, revision: u64) {
        for nominee in self.nominees.iter_mut().filter(|nominee| nominee.pod.uid == uid) {
            nominee.until.get_or_insert(revision);
        }
        self.claims.retain(|claim| claim.nominee != uid);
    }

    /// Removes nominations that ended before a revision.
    pub(super) fn forget(&mut self, before: u64) {
        self.nominees.retain(|nominee| nominee.until.is_none_or(|until| until >= before));
    }

    /// Returns the revision at which the last nomination of a pod of higher priority to the victim's node ended, [`u64::MAX`] while there is one.
    pub(super) fn explain(&self, victim: &Pod) -> Option<u64> {
        let there = |nominee: &&Nominee| Some(&nominee.node) == victim.node.as_ref();
        let higher = |nominee: &&Nominee| nominee.pod.priority > victim.priority;
        self.nominees.iter().filter(there).filter(higher).map(|nominee| nominee.until.unwrap_or(u64::MAX)).max()
    }

    /// The pods for which a pod has to leave room on a node, as far as their nominations must be known.
    pub(super) fn before(&self, pod: &Pod, node: &str, old: u64) -> impl Iterator<Item = &Nominee> {
        self.nominees.iter().filter(move |nominee| {
            nominee.node == node
                && nominee.since <= old
                && nominee.until.is_none()
                && nominee.pod.priority >= pod.priority
                && nominee.pod.uid != pod.uid
        })
    }

    /// Records a binding that leaves a nominee no room.
    pub(super) fn claim(&mut self, revision: u64, pod: &Pod, node: &str, nominee: &str, what: String) {
        let (pod, node, nominee) = (pod.clone(), node.to_owned(), nominee.to_owned());
        self.claims.push(Claim { revision, pod, what, nominee, node });
    }

    /// Returns the claims from before a revision that nothing has refuted.
    pub(super) fn proven(&mut self, before: u64) -> Vec<Claim> {
        let (proven, open) = std::mem::take(&mut self.claims).into_iter().partition(|claim| claim.revision < before);
        self.claims = open;
        proven
    }
}

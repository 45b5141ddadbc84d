//! The actions that a reconcile of a DaemonSet takes.

use std::time::Duration;

use super::pods::Pod;

/// A pod to create.
#[derive(Debug)]
pub(super) struct New<'a> {
    /// The node to which the pod is pinned.
    pub(super) node: &'a str,
    /// The number of the node's pods that failed one after the other before this pod.
    pub(super) former_failures: i64,
    /// The failed pods, which are deleted when the new one exists.
    pub(super) replaces: Vec<&'a Pod>,
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The pod has failed.
    Failed,
    /// The pod has succeeded, but daemons run forever.
    Succeeded,
    /// The node has another pod, is to have none, or does not exist.
    Surplus,
    /// The pod has an earlier template.
    Outdated,
}

/// A pod to delete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal<'a> {
    pub(super) pod: &'a Pod,
    pub(super) why: Why,
}

/// The pods that a reconcile creates and deletes.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    /// The pods to create.
    pub(super) create: Vec<New<'a>>,
    /// The pods to delete.
    pub(super) delete: Vec<Removal<'a>>,
    /// The time after which the plan or the status may change without any other change.
    pub(super) again: Option<Duration>,
}

impl<'a> Plan<'a> {
    /// Plans to delete pods.
    pub(super) fn remove(&mut self, pods: impl IntoIterator<Item = &'a Pod>, why: Why) {
        self.delete.extend(pods.into_iter().map(|pod| Removal { pod, why }));
    }

    /// Plans to create a pod that is no successor of failed ones.
    pub(super) fn add(&mut self, node: &'a str) {
        self.create.push(New { node, former_failures: 0, replaces: Vec::new() });
    }

    /// Plans to look at the DaemonSet again after a pause at the latest.
    pub(super) fn wait(&mut self, pause: Duration) {
        self.again = self.again.into_iter().chain([pause]).min();
    }
}

//! The pool of unschedulable pods, with the plugins that rejected them: an event that none of these plugins
//! registered costs nothing, however many pods wait.

use std::collections::BTreeMap;

use crate::model::Uid;
use crate::plugin::Plugins;

/// Unschedulable and gated pods by their number, so that events are applied to pods in a fixed order.
#[derive(Default)]
pub(super) struct Pool {
    pods: BTreeMap<u64, (Uid, u32)>,
    /// Number of pods that each plugin rejected.
    turned_down: [usize; 32],
}

impl Pool {
    /// Adds a pod that the plugins in `rejectors` rejected.
    pub(super) fn insert(&mut self, number: u64, uid: Uid, rejectors: u32) {
        self.remove(number);
        self.pods.insert(number, (uid, rejectors));
        self.count(rejectors, 1);
    }

    /// Removes a pod.
    pub(super) fn remove(&mut self, number: u64) {
        if let Some((_, rejectors)) = self.pods.remove(&number) {
            self.count(rejectors, -1);
        }
    }

    fn count(&mut self, rejectors: u32, change: isize) {
        for (at, count) in self.turned_down.iter_mut().enumerate() {
            if rejectors & (1 << at) != 0 {
                *count = count.saturating_add_signed(change);
            }
        }
    }

    /// Returns the number of pods in the pool.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether the pool is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the pods' uids in order.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.values().map(|(uid, _)| uid)
    }

    /// Returns the pods that at least one plugin of a set rejected, in order.
    pub(super) fn turned_down_by(&self, plugins: u32) -> impl Iterator<Item = &Uid> {
        self.pods.values().filter(move |(_, rejectors)| rejectors & plugins != 0).map(|(uid, _)| uid)
    }

    /// Returns the plugins that have registered a kind of event and have rejected a pod in the pool.
    pub(super) fn interested(&self, plugins: Plugins, kind: u8) -> u32 {
        let plugins = plugins.iter().zip(&self.turned_down).enumerate();
        plugins
            .filter(|(_, (plugin, count))| **count > 0 && plugin.events & kind != 0)
            .fold(0, |set, (at, _)| set | 1 << at)
    }
}

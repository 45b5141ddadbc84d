//! The pool of pods that wait for an event, and which plugins they wait for: an event that none of those plugins
//! cares about costs nothing, however many pods wait.

use std::collections::BTreeMap;

use crate::model::Uid;
use crate::table::PLUGINS;

/// Unschedulable and gated pods by their number, so that events meet them in a fixed order.
#[derive(Default)]
pub(super) struct Pool {
    pods: BTreeMap<u64, (Uid, u32)>,
    /// Per plugin, how many of the pods it turned down.
    turned_down: [usize; 32],
}

impl Pool {
    /// Takes a pod in that these plugins turned down.
    pub(super) fn insert(&mut self, number: u64, uid: Uid, rejectors: u32) {
        self.remove(number);
        self.pods.insert(number, (uid, rejectors));
        self.count(rejectors, 1);
    }

    /// Lets a pod go.
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

    /// How many pods wait.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The waiting pods in order.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.values().map(|(uid, _)| uid)
    }

    /// The pods that at least one plugin of a set turned down, in order.
    pub(super) fn turned_down_by(&self, plugins: u32) -> impl Iterator<Item = &Uid> {
        self.pods.values().filter(move |(_, rejectors)| rejectors & plugins != 0).map(|(uid, _)| uid)
    }

    /// The plugins that care about a kind of event and have turned a waiting pod down.
    pub(super) fn interested(&self, kind: u8) -> u32 {
        let plugins = PLUGINS.iter().zip(&self.turned_down).enumerate();
        plugins
            .filter(|(_, (plugin, count))| **count > 0 && plugin.events & kind != 0)
            .fold(0, |set, (at, _)| set | 1 << at)
    }
}

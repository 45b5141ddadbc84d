//! Owners that are known to be gone, so that a thousand dependents of one cost one question.

use std::collections::{BTreeSet, VecDeque};

use oarlock_meta::Uid;
use parking_lot::Mutex;

/// As many as upstream remembers.
const MOST: usize = 500;

/// See the module text. A uid is never used again, so what is gone stays gone.
#[derive(Debug, Default)]
pub(super) struct Absent {
    known: Mutex<(BTreeSet<Uid>, VecDeque<Uid>)>,
}

impl Absent {
    pub(super) fn has(&self, uid: &Uid) -> bool {
        self.known.lock().0.contains(uid)
    }

    pub(super) fn add(&self, uid: &Uid) {
        let mut known = self.known.lock();
        let (set, order) = &mut *known;
        if set.insert(uid.clone()) {
            order.push_back(uid.clone());
            if order.len() > MOST
                && let Some(oldest) = order.pop_front()
            {
                set.remove(&oldest);
            }
        }
    }
}

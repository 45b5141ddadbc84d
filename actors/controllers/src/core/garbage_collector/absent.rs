//! Owners that are known to be gone, so that a thousand dependents of one cost one question.

use std::collections::{BTreeSet, VecDeque};

use oarlock_informer::OwnerRef;
use oarlock_meta::Uid;
use oarlock_schema::Str;
use parking_lot::Mutex;

/// As many as upstream remembers.
const MOST: usize = 500;

/// An owner that was asked for: the coordinates of a reference, and the namespace in which it was looked for. The uid alone would not do: a reference that
/// combines an owner's uid with a wrong name, kind or namespace must not make the owner count as gone for correct references.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    api_version: Str,
    kind: Str,
    namespace: Str,
    name: Str,
    uid: Uid,
}

impl Asked {
    pub(super) fn new(owner: &OwnerRef, namespace: &str) -> Self {
        let OwnerRef { api_version, kind, name, uid, controller: _, block_deletion: _ } = owner.clone();
        Self { api_version, kind, namespace: namespace.into(), name, uid }
    }
}

/// See the module text. A uid is never used again, so what is gone stays gone.
#[derive(Debug, Default)]
pub(super) struct Absent {
    known: Mutex<(BTreeSet<Asked>, VecDeque<Asked>)>,
}

impl Absent {
    pub(super) fn has(&self, asked: &Asked) -> bool {
        self.known.lock().0.contains(asked)
    }

    pub(super) fn add(&self, asked: Asked) {
        let mut known = self.known.lock();
        let (set, order) = &mut *known;
        if set.insert(asked.clone()) {
            order.push_back(asked);
            if order.len() > MOST
                && let Some(oldest) = order.pop_front()
            {
                set.remove(&oldest);
            }
        }
    }
}

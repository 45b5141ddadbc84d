//! Remembers owners that do not exist, so that a thousand dependents of one absent owner cost one lookup.

use std::collections::{BTreeSet, VecDeque};

use oarlock_informer::OwnerRef;
use oarlock_meta::Uid;
use oarlock_schema::Str;
use parking_lot::Mutex;

/// The most absent owners that are remembered (upstream's number).
const MAX_ABSENT_OWNERS: usize = 500;

/// The identity of an owner lookup: the reference's coordinates and the namespace of the lookup. The uid alone is not enough: a reference that
/// combines an owner's uid with a wrong name, kind or namespace must not make the owner absent for correct references.
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

/// A bounded set of absent owners. Uids are never reused, so an absent owner remains absent.
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
            if order.len() > MAX_ABSENT_OWNERS
                && let Some(oldest) = order.pop_front()
            {
                set.remove(&oldest);
            }
        }
    }
}

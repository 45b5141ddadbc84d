//! Last revision of every key in etcd, so that an event can name the revision it replaced. etcd's events carry only a version counter.

use hashbrown::HashMap;
use oarlock_meta::Revision;

use crate::Key;

/// Last write of a key, and the number of writes since the key's creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) version: i64,
}

/// The heads of the keys seen so far, as of one revision. A missing key is unknown, not absent.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The revision up to which the heads are current.
    pub(crate) at: Revision,
    keys: HashMap<Key, Option<Head>, foldhash::fast::FixedState>,
}

/// Previous revision of a key, derived from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predecessor {
    /// The previous revision; `None` when the key did not exist.
    Known(Option<Revision>),
    /// The key was not seen yet: its previous revision must be read.
    Unknown,
    /// The event does not continue from the known head: an event was missed.
    Hole,
}

impl Heads {
    /// Creates heads without keys, as of a revision.
    pub(crate) fn new(at: Revision) -> Self {
        Self { at, ..Self::default() }
    }

    /// Stores the head of a key that was read.
    pub(crate) fn learn(&mut self, key: Key, head: Option<Head>) {
        self.keys.insert(key, head);
    }

    /// Returns the revision before the write that gave `key` this `version`; version 0 is a delete.
    pub(crate) fn before(&self, key: &Key, version: i64) -> Predecessor {
        match self.keys.get(key) {
            // Version 1 follows a deletion or no write at all.
            None if version == 1 => Predecessor::Known(None),
            None => Predecessor::Unknown,
            Some(None) if version == 1 => Predecessor::Known(None),
            Some(Some(head)) if version == 0 || version == head.version + 1 => Predecessor::Known(Some(head.revision)),
            Some(_) => Predecessor::Hole,
        }
    }

    /// Updates the head after a write.
    pub(crate) fn note(&mut self, key: &Key, revision: Revision, version: i64) {
        let head = (version > 0).then_some(Head { revision, version });
        match head {
            None => {
                self.keys.remove(key);
            }
            Some(head) => match self.keys.get_mut(key) {
                Some(known) => *known = Some(head),
                None => {
                    self.keys.insert(key.clone(), Some(head));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_event_is_seen_by_the_version() {
        let key = Key::new("/registry/pods", "a/b");
        let mut heads = Heads::new(Revision(1));
        assert_eq!(heads.before(&key, 1), Predecessor::Known(None));
        assert_eq!(heads.before(&key, 3), Predecessor::Unknown);
        assert_eq!(heads.before(&key, 0), Predecessor::Unknown, "a delete needs something before it");
        heads.note(&key, Revision(2), 1);
        assert_eq!(heads.before(&key, 2), Predecessor::Known(Some(Revision(2))));
        assert_eq!(heads.before(&key, 3), Predecessor::Hole);
        assert_eq!(heads.before(&key, 1), Predecessor::Hole, "its delete was missed");
        assert_eq!(heads.before(&key, 0), Predecessor::Known(Some(Revision(2))));
        heads.note(&key, Revision(5), 0);
        assert_eq!(heads.before(&key, 1), Predecessor::Known(None));
        heads.learn(key.clone(), None);
        assert_eq!(heads.before(&key, 2), Predecessor::Hole, "there was nothing to follow");
    }
}

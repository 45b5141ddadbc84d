//! What every key was last written at, so that an event can name its predecessor: etcd's events tell a version, not the revision before.

use hashbrown::HashMap;
use oarlock_meta::Revision;

use crate::Key;

/// Where a key stands: its last write, and how many it has had since its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) version: i64,
}

/// The heads of the keys met so far, as of one revision. A key that is not here is unknown, not absent.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The revision of which they tell.
    pub(crate) at: Revision,
    keys: HashMap<Key, Option<Head>, foldhash::fast::FixedState>,
}

/// What an event says of the version before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// This, or nothing.
    Known(Option<Revision>),
    /// The key was not met yet: somebody must look.
    Unknown,
    /// The event does not follow from what is known: one was missed.
    Hole,
}

impl Heads {
    /// No keys, at a revision.
    pub(crate) fn new(at: Revision) -> Self {
        Self { at, ..Self::default() }
    }

    /// Learns where a key stands.
    pub(crate) fn learn(&mut self, key: Key, head: Option<Head>) {
        self.keys.insert(key, head);
    }

    /// What was before a write of `key` that gives it `version`; 0 deletes.
    pub(crate) fn before(&self, key: &Key, version: i64) -> Before {
        match self.keys.get(key) {
            // The first version follows nothing, or a deletion.
            None if version == 1 => Before::Known(None),
            None => Before::Unknown,
            Some(None) if version == 1 => Before::Known(None),
            Some(Some(head)) if version == 0 || version == head.version + 1 => Before::Known(Some(head.revision)),
            Some(_) => Before::Hole,
        }
    }

    /// Moves on over a write.
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
        assert_eq!(heads.before(&key, 1), Before::Known(None));
        assert_eq!(heads.before(&key, 3), Before::Unknown);
        assert_eq!(heads.before(&key, 0), Before::Unknown, "a delete needs something before it");
        heads.note(&key, Revision(2), 1);
        assert_eq!(heads.before(&key, 2), Before::Known(Some(Revision(2))));
        assert_eq!(heads.before(&key, 3), Before::Hole);
        assert_eq!(heads.before(&key, 1), Before::Hole, "its delete was missed");
        assert_eq!(heads.before(&key, 0), Before::Known(Some(Revision(2))));
        heads.note(&key, Revision(5), 0);
        assert_eq!(heads.before(&key, 1), Before::Known(None));
        heads.learn(key.clone(), None);
        assert_eq!(heads.before(&key, 2), Before::Hole, "there was nothing to follow");
    }
}

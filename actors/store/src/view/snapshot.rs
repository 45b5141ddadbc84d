//! Snapshots: the state of one resource at one revision, cheap to take and to keep for a while.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use oarlock_meta::Revision;
use oarlock_storage::Key;

use crate::entry::Entry;

pub(super) type Map = OrdMap<Key, Arc<Entry>>;

/// Every object of a resource at one revision, ordered by key.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) prefix: Arc<str>,
    pub(super) revision: Revision,
    pub(super) map: Map,
}

impl Snapshot {
    /// The revision this is the state of: a list's `resourceVersion`.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many objects there are, in all namespaces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.map.get(key)
    }

    /// Every object, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.map.values()
    }

    /// Every object, by key, taken out.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = Arc<Entry>> + Send {
        self.map.into_iter().map(|(_, entry)| entry)
    }

    /// The objects of one namespace (`None`: of all), by key, beginning at `start`, inclusive: a position after the
    /// resource prefix such as `default/web-1`, or empty for the beginning.
    pub fn range(&self, namespace: Option<&str>, start: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let scope = match namespace {
            None => self.prefix.to_string(),
            Some(namespace) => [&self.prefix, namespace, "/"].concat(),
        };
        let from = [&self.prefix, start].concat().max(scope.clone());
        // '0' is the byte after '/', with which every scope ends.
        let mut to = scope;
        to.pop();
        to.push('0');
        let empty = from > to;
        let bounds: (Bound<&str>, Bound<&str>) = if empty {
            (Bound::Included(&to), Bound::Excluded(&to))
        } else {
            (Bound::Included(&from), Bound::Excluded(&to))
        };
        self.map.range::<_, str>(bounds).map(|(_, entry)| entry)
    }

    /// How many objects a namespace has from `start` on; as [`Snapshot::range`].
    #[must_use]
    pub fn count(&self, namespace: Option<&str>, start: &str) -> usize {
        if namespace.is_none() && start.is_empty() { self.len() } else { self.range(namespace, start).count() }
    }
}

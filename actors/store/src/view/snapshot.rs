//! Snapshots: the state of one resource at one revision, cheap to take and to keep.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use oarlock_meta::Revision;
use oarlock_storage::Key;

use crate::entry::Entry;

pub(super) type Map = OrdMap<Key, Arc<Entry>>;

/// All objects of a resource at one revision, ordered by key.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) prefix: Arc<str>,
    pub(super) revision: Revision,
    pub(super) map: Map,
}

impl Snapshot {
    /// Returns the snapshot's revision: a list's `resourceVersion`.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the number of objects in all namespaces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the snapshot has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns one object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.map.get(key)
    }

    /// Iterates over all objects by key.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.map.values()
    }

    /// Consumes the snapshot and iterates over all objects by key.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = Arc<Entry>> + Send {
        self.map.into_iter().map(|(_, entry)| entry)
    }

    /// Iterates over the objects of one namespace (`None`: of all), by key, from `start`, inclusive: a position after the resource prefix such as
    /// `default/web-1`, or empty for the beginning.
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

    /// Returns the number of objects of a namespace from `start` on; arguments as for [`Snapshot::range`].
    #[must_use]
    pub fn count(&self, namespace: Option<&str>, start: &str) -> usize {
        if namespace.is_none() && start.is_empty() { self.len() } else { self.range(namespace, start).count() }
    }
}

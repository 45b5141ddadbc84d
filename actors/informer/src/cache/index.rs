//! Indexes of a cache: the items that have a value, updated with each change, so that no reconcile has to scan the cache.

use std::sync::Arc;

use hashbrown::HashMap;
use oarlock_schema::Str;

use super::Cache;
use crate::item::Item;

/// Calls its second argument with each index value of an item.
pub(super) type Values<T> = dyn Fn(&Item<T>, &mut dyn FnMut(&str)) + Send + Sync;

/// One index of a cache: the items of each value in key order.
pub(super) struct Table<T> {
    name: Str,
    values: Arc<Values<T>>,
    rows: HashMap<Str, Vec<Arc<Item<T>>>>,
}

impl<T> Table<T> {
    fn new(name: &str, values: Arc<Values<T>>, items: impl Iterator<Item = Arc<Item<T>>>) -> Self {
        let mut table = Self { name: name.into(), values, rows: HashMap::new() };
        for item in items {
            table.change(None, Some(&item));
        }
        table
    }

    pub(super) fn change(&mut self, old: Option<&Arc<Item<T>>>, new: Option<&Arc<Item<T>>>) {
        let values = self.values.clone();
        if let Some(old) = old {
            values(old, &mut |value| self.take(value, old));
        }
        if let Some(new) = new {
            values(new, &mut |value| self.put(value, new));
        }
    }

    fn put(&mut self, value: &str, item: &Arc<Item<T>>) {
        let row = self.rows.entry(Str::from(value)).or_default();
        match row.binary_search_by(|other| other.key().cmp(item.key())) {
            // An item may name a value twice.
            Ok(at) => row.get_mut(at).into_iter().for_each(|slot| *slot = item.clone()),
            Err(at) => row.insert(at, item.clone()),
        }
    }

    fn take(&mut self, value: &str, item: &Arc<Item<T>>) {
        let Some(row) = self.rows.get_mut(value) else { return };
        if let Ok(at) = row.binary_search_by(|other| other.key().cmp(item.key())) {
            row.remove(at);
        }
        if row.is_empty() {
            self.rows.remove(value);
        }
    }
}

/// A secondary index of a [`Cache`]: finds objects by a value, such as an owner's uid. Clones share the index.
///
/// An index changes together with its cache, so it is exactly as stale as the cache.
pub struct Index<T> {
    cache: Arc<Cache<T>>,
    at: usize,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), at: self.at }
    }
}

impl<T> std::fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<T> Index<T> {
    /// Returns the objects that have `value`, in key order, as of one revision.
    ///
    /// A recent create may be missing and a listed object may be deleted by now. A controller that counts what it owns waits for its own writes
    /// first ([`crate::OwnWrites`]), or it creates the same object twice.
    #[must_use]
    pub fn get(&self, value: &str) -> Vec<Arc<Item<T>>> {
        self.with(value, <[_]>::to_vec)
    }

    /// The number of objects that have `value`; as stale as [`Index::get`].
    #[must_use]
    pub fn count(&self, value: &str) -> usize {
        self.with(value, <[_]>::len)
    }

    /// Returns the values that at least one object has, sorted. A value may have no object any more by the time the caller asks for it.
    #[must_use]
    pub fn values(&self) -> Vec<Str> {
        let state = self.cache.state.read();
        let mut values: Vec<Str> =
            state.indexes.get(self.at).map(|table| table.rows.keys().cloned().collect()).unwrap_or_default();
        values.sort_unstable();
        values
    }

    /// The cache that the index belongs to.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache<T>> {
        &self.cache
    }

    fn with<R>(&self, value: &str, read: impl FnOnce(&[Arc<Item<T>>]) -> R) -> R {
        let state = self.cache.state.read();
        read(state.indexes.get(self.at).and_then(|table| table.rows.get(value)).map_or(&[], Vec::as_slice))
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// Returns the index of this name, or builds one from `values` if the cache has none. `values` calls its second argument with each value of
    /// an item; the values must depend on the item alone.
    #[must_use]
    pub fn index(
        self: &Arc<Self>,
        name: &str,
        values: impl Fn(&Item<T>, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Index<T> {
        let mut state = self.state.write();
        let found = state.indexes.iter().position(|table| table.name == name);
        let at = found.unwrap_or_else(|| {
            let table = Table::new(name, Arc::new(values), state.items.values());
            state.indexes.push(table);
            state.indexes.len() - 1
        });
        Index { cache: self.clone(), at }
    }

    /// Returns the index by the uid of the managing controller.
    #[must_use]
    pub fn by_controller(self: &Arc<Self>) -> Index<T> {
        self.index("controller", |item, value| {
            if let Some(owner) = item.meta.controller() {
                value(owner.uid.as_str());
            }
        })
    }

    /// Returns the index by the uid of each owner.
    #[must_use]
    pub fn by_owner(self: &Arc<Self>) -> Index<T> {
        self.index("owner", |item, value| item.meta.owners.iter().for_each(|owner| value(owner.uid.as_str())))
    }

    /// Returns the index by the value of a label; objects without the label are not indexed.
    #[must_use]
    pub fn by_label(self: &Arc<Self>, label: &str) -> Index<T> {
        let label = Str::from(label);
        self.index(&format!("label {label}"), move |item, value| {
            if let Some(found) = item.meta.label(&label) {
                value(found);
            }
        })
    }
}

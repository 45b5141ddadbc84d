//! Indexes: which items have a value. Kept current with each change, so that no reconcile has to scan.

use std::sync::Arc;

use hashbrown::HashMap;
use oarlock_schema::Str;

use super::Cache;
use crate::item::Item;

/// Names the values of an item by calling the function it is given.
pub(super) type Values<T> = dyn Fn(&Item<T>, &mut dyn FnMut(&str)) + Send + Sync;

/// One index of a cache: the items of each value in key order.
pub(super) struct Table<T> {
    name: Str,
    values: Arc<Values<T>>,
    rows: HashMap<Str, Vec<Arc<Item<T>>>>,
}

impl<T> Table<T> {
    fn new<'a>(name: &str, values: Arc<Values<T>>, items: impl Iterator<Item = &'a Arc<Item<T>>>) -> Self
    where
        T: 'a,
    {
        let mut table = Self { name: name.into(), values, rows: HashMap::new() };
        for item in items {
            table.change(None, Some(item));
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

/// Looks items up by a value. Clones share the index.
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
    /// The items that have `value`, in key order.
    #[must_use]
    pub fn get(&self, value: &str) -> Vec<Arc<Item<T>>> {
        self.with(value, <[_]>::to_vec)
    }

    /// How many items have `value`.
    #[must_use]
    pub fn count(&self, value: &str) -> usize {
        self.with(value, <[_]>::len)
    }

    /// The values that some item has, sorted.
    #[must_use]
    pub fn values(&self) -> Vec<Str> {
        let state = self.cache.state.read();
        let mut values: Vec<Str> =
            state.indexes.get(self.at).map(|table| table.rows.keys().cloned().collect()).unwrap_or_default();
        values.sort_unstable();
        values
    }

    /// The cache behind the index.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache<T>> {
        &self.cache
    }

    fn with<R>(&self, value: &str, read: impl FnOnce(&[Arc<Item<T>>]) -> R) -> R {
        let state = self.cache.state.read();
        read(state.indexes.get(self.at).and_then(|table| table.rows.get(value)).map_or(&[], Vec::as_slice))
    }
}

impl<T> Cache<T> {
    /// The index of this name, made from `values` if there is none yet. `values` calls its second argument with each value of an item;
    /// it must depend on the item alone.
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

    /// By the uid of the managing controller.
    #[must_use]
    pub fn by_controller(self: &Arc<Self>) -> Index<T> {
        self.index("controller", |item, value| {
            if let Some(owner) = item.meta.controller() {
                value(owner.uid.as_str());
            }
        })
    }

    /// By the uid of each owner.
    #[must_use]
    pub fn by_owner(self: &Arc<Self>) -> Index<T> {
        self.index("owner", |item, value| item.meta.owners.iter().for_each(|owner| value(owner.uid.as_str())))
    }

    /// By the value of a label; items without the label are not in it.
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

//! The items of a cache in key order.
//!
//! The tree does not know the type of the projection, so that its code is compiled once and not for each projection.

use std::any::Any;
use std::collections::{BTreeMap, btree_map};
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use crate::item::Item;
use crate::key::Key;

/// An item of whatever projection.
type AnyItem = Arc<dyn Any + Send + Sync>;

/// The items of a cache, or of a complete state that becomes a cache's.
pub(crate) struct Items<T> {
    tree: Tree,
    projection: PhantomData<fn() -> T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { tree: Tree::default(), projection: PhantomData }
    }
}

impl<T> Items<T> {
    pub(crate) fn len(&self) -> usize {
        self.tree.0.len()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.tree.get(key).is_some()
    }

    pub(crate) fn keys(&self) -> btree_map::Keys<'_, Key, AnyItem> {
        self.tree.0.keys()
    }
}

impl<T: Send + Sync + 'static> Items<T> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Item<T>>> {
        self.tree.get(key).and_then(|item| typed(Arc::clone(item)))
    }

    /// Stores an item under its key, and returns the one that had the key.
    pub(crate) fn insert(&mut self, item: Arc<Item<T>>) -> Option<Arc<Item<T>>> {
        self.tree.insert(item.key().clone(), item).and_then(typed)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Item<T>>> {
        self.tree.remove(key).and_then(typed)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = Arc<Item<T>>> {
        self.tree.0.values().cloned().filter_map(typed)
    }

    /// The items from this key on.
    pub(crate) fn from(&self, key: Key) -> impl Iterator<Item = Arc<Item<T>>> {
        self.tree.from(key).map(|(_, item)| item).cloned().filter_map(typed)
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = Arc<Item<T>>> {
        self.tree.0.into_values().filter_map(typed)
    }
}

/// An item by its type again. Every item of an [`Items`] has come in with its type, so there always is one.
fn typed<T: Send + Sync + 'static>(item: AnyItem) -> Option<Arc<Item<T>>> {
    item.downcast().ok()
}

/// The tree of [`Items`]; its functions have no type parameters.
#[derive(Default)]
struct Tree(BTreeMap<Key, AnyItem>);

impl Tree {
    fn get(&self, key: &Key) -> Option<&AnyItem> {
        self.0.get(key)
    }

    fn insert(&mut self, key: Key, item: AnyItem) -> Option<AnyItem> {
        self.0.insert(key, item)
    }

    fn remove(&mut self, key: &Key) -> Option<AnyItem> {
        self.0.remove(key)
    }

    fn from(&self, key: Key) -> btree_map::Range<'_, Key, AnyItem> {
        self.0.range((Bound::Included(key), Bound::Unbounded))
    }
}

//! The objects that a controller reconciles.

use std::sync::Arc;

use oarlock_informer::{Cache, ControllerBuilder, Item, Key, OwnWrites, Project, Reconcile};
use oarlock_meta::Revision;
use oarlock_schema::Resource;

use super::env::{Env, must};
use super::shell::Shell;
use crate::error::Error;

/// The objects of one kind that a controller reconciles, and the controller's own writes.
pub(crate) struct Reconciled<T> {
    /// The cache of the objects.
    pub(crate) cache: Arc<Cache<T>>,
    /// The controller's writes that its caches do not show yet.
    pub(crate) own: Arc<OwnWrites>,
    /// The objects' resource.
    pub(crate) resource: &'static Resource,
}

impl<T> Clone for Reconciled<T> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), own: self.own.clone(), resource: self.resource }
    }
}

impl<T: Project> Reconciled<T> {
    /// Opens the informer of all objects of the kind.
    ///
    /// # Errors
    /// When the schema lacks the resource or the informer cannot be started.
    pub(crate) async fn open(env: &Env) -> Result<Self, Error> {
        let resource = must(T::RESOURCE)?;
        Ok(Self { cache: env.informers.all::<T>().await?, own: Arc::default(), resource })
    }

    /// Begins a controller that reconciles the objects and waits for its own writes.
    pub(crate) fn controller(&self, shell: &Shell, reconcile: impl Reconcile) -> ControllerBuilder {
        shell.controller(reconcile).reconciles(&self.cache).own_writes(&self.own)
    }

    /// Returns the object with this key as the cache shows it. For a key without an object, the records of the controller's own writes are dropped.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Item<T>>> {
        let found = self.cache.get(key);
        if found.is_none() {
            self.own.forget(key);
        }
        found
    }

    /// Records that the reconcile of an object wrote the object.
    pub(crate) fn wrote(&self, item: &Item<T>, revision: Revision) {
        self.own.wrote(item.key(), &self.cache, revision);
    }
}

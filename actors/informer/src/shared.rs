//! Shared informers: consumers of the same resource, projection and selection get the same cache.

use std::any::{Any, TypeId};
use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Client;
use oarlock_runtime::{Instant, System};
use oarlock_schema::{Resource, Str};
use tokio::sync::Mutex;

use crate::cache::{Cache, NotCaughtUp};
use crate::cache_revision::CacheRevision;
use crate::project::{Project, ResourceName};
use crate::reflector::{self, REFLECTOR, Target};
use crate::selection::Selection;

/// Why an informer could not be started or is not ready.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema does not have the projection's resource.
    #[error("no resource {0:?} in the schema")]
    Resource(ResourceName),
    /// The reflector could not be spawned.
    #[error("reflector")]
    Spawn(#[from] oarlock_runtime::Error),
    /// A cache was not synced at the deadline.
    #[error("informer {name} is not synced")]
    NotSynced {
        /// The name of the first informer whose cache was not synced.
        name: String,
        /// The revision that the cache had reached.
        source: NotCaughtUp,
    },
}

/// The informers that read as one identity in one process. Clones share the informers.
#[derive(Clone)]
pub struct SharedInformers {
    inner: Arc<Inner>,
}

struct Inner {
    system: System,
    client: Client,
    name: Str,
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    projection: TypeId,
    resource: &'static Resource,
    selection: Selection,
    name: String,
    cache: Arc<dyn Any + Send + Sync>,
    fresh: Arc<dyn CacheRevision>,
}

/// A new cache, as what its set needs it for.
struct NewCache {
    any: Arc<dyn Any + Send + Sync>,
    target: Arc<dyn Target>,
    fresh: Arc<dyn CacheRevision>,
}

impl std::fmt::Debug for SharedInformers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedInformers").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl SharedInformers {
    /// An empty set of informers that read as `client`'s identity. `name` distinguishes the sets of one process.
    #[must_use]
    pub fn new(system: System, client: Client, name: impl Into<Str>) -> Self {
        Self { inner: Arc::new(Inner { system, client, name: name.into(), entries: Mutex::default() }) }
    }

    /// Returns the cache of all objects of the projection's resource, and starts its reflector if this is the first request. May be unsynced.
    ///
    /// # Errors
    /// [`Error::Resource`], [`Error::Spawn`].
    pub async fn all<P: Project>(&self) -> Result<Arc<Cache<P>>, Error> {
        self.select(Selection::default()).await
    }

    /// Returns the cache of a selection of the projection's resource, as [`SharedInformers::all`].
    ///
    /// # Errors
    /// [`Error::Resource`], [`Error::Spawn`].
    pub async fn select<P: Project>(&self, selection: Selection) -> Result<Arc<Cache<P>>, Error> {
        let resource = P::RESOURCE.find().ok_or(Error::Resource(P::RESOURCE))?;
        self.of(resource, selection).await
    }

    /// Returns the cache of a selection of any resource, for projections that fit several (such as `()`, metadata only).
    ///
    /// # Errors
    /// [`Error::Spawn`].
    pub async fn of<P: Project>(
        &self,
        resource: &'static Resource,
        selection: Selection,
    ) -> Result<Arc<Cache<P>>, Error> {
        let new = || {
            let cache = Arc::new(Cache::<P>::default());
            NewCache { any: cache.clone(), target: cache.clone(), fresh: cache }
        };
        let cache = self.find_or_start(TypeId::of::<P>(), resource, selection, &new).await?;
        // The set finds a cache by the type of its projection.
        cache.downcast().map_err(|_| Error::Resource(P::RESOURCE))
    }

    /// Returns the cache of a projection, resource and selection, and starts the reflector of a new one if there is none. Has no type parameter, and is
    /// boxed, so that it is compiled once.
    fn find_or_start<'a>(
        &'a self,
        projection: TypeId,
        resource: &'static Resource,
        selection: Selection,
        new: &'a (dyn Fn() -> NewCache + Sync),
    ) -> BoxFuture<'a, Result<Arc<dyn Any + Send + Sync>, Error>> {
        Box::pin(async move {
            let mut entries = self.inner.entries.lock().await;
            let same = |entry: &&Entry| {
                entry.projection == projection && std::ptr::eq(entry.resource, resource) && entry.selection == selection
            };
            if let Some(entry) = entries.iter().find(same) {
                return Ok(Arc::clone(&entry.cache));
            }
            let NewCache { any, target, fresh } = new();
            let name = format!("{}/{}/{}", self.inner.name, resource.group_resource(), entries.len());
            let client = self.inner.client.clone();
            let source = Arc::new(reflector::Source { client, resource, selection: selection.clone() });
            self.inner
                .system
                .spawn_loop(&REFLECTOR, name.clone(), move |ctx| reflector::run(ctx, source.clone(), target.clone()))
                .await?;
            entries.push(Entry { projection, resource, selection, name, cache: Arc::clone(&any), fresh });
            Ok(any)
        })
    }

    /// Waits until every cache returned so far has its first complete state.
    ///
    /// # Errors
    /// [`Error::NotSynced`] names the first informer that is not synced at `deadline`.
    pub async fn synced(&self, deadline: Instant) -> Result<(), Error> {
        let all: Vec<(String, Arc<dyn CacheRevision>)> =
            self.inner.entries.lock().await.iter().map(|entry| (entry.name.clone(), entry.fresh.clone())).collect();
        for (name, fresh) in all {
            let progress = fresh.follow();
            let there = progress.wait_for(|progress| progress.synced);
            if oarlock_runtime::clock::timeout_at(deadline, there).await.is_err() {
                let source = NotCaughtUp { at: fresh.applied(), wanted: oarlock_meta::Revision::ZERO };
                return Err(Error::NotSynced { name, source });
            }
        }
        Ok(())
    }
}

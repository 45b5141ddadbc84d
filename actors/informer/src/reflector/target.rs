//! A cache as its reflector writes it: without the type of the projection, so that the code of the reflector is compiled once and not for each
//! projection.

use std::sync::Arc;

use futures::future::BoxFuture;
use oarlock_client::Object;
use oarlock_meta::{Revision, Status};

use crate::cache::{Cache, Items, unchanged};
use crate::cache_revision::Progress;
use crate::item::Item;
use crate::key::Key;
use crate::project::Project;
use crate::relay::{Delta, Stretch, Watching};

/// A cache that a reflector keeps current.
pub(crate) trait Target: Send + Sync {
    /// The revision that the cache reflects, and whether it has had a complete state.
    fn progress(&self) -> Progress;
    /// The number of objects in the cache.
    fn len(&self) -> usize;
    /// Begins to collect a complete state.
    fn complete_state(self: Arc<Self>) -> Box<dyn CompleteState>;
    /// Begins a batch of about `room` changes that follow the cache's state.
    fn batch(self: Arc<Self>, room: usize) -> Box<dyn Batch>;
    /// Marks the reflector as watching until the guard is dropped.
    fn watching(&self) -> Watching<'_>;
    /// As [`crate::Relay::join`].
    fn join_relay(&self, before: Revision) -> Option<u64>;
    /// Waits for the next stretch of the relay's series, and applies the changes in it that are newer than `at`. The number of all its changes; `None`
    /// when the relay ends. Cancel safe.
    fn next_of_relay(&self, series: u64, at: Revision) -> BoxFuture<'_, Option<u64>>;
    /// As [`crate::Relay::leave`].
    fn leave_relay(&self);
}

/// A complete state that is being collected.
pub(crate) trait CompleteState: Send {
    /// Adds an object, decoded only if the cache does not have it at this revision.
    ///
    /// # Errors
    /// When the object cannot be decoded.
    fn add(&mut self, object: &Object) -> Result<(), Status>;
    /// Removes an object that was deleted meanwhile.
    ///
    /// # Errors
    /// When the object's name cannot be read.
    fn remove(&mut self, object: &Object) -> Result<(), Status>;
    /// The number of objects collected.
    fn len(&self) -> usize;
    /// Makes this the cache's state, as of `revision`.
    fn finish(self: Box<Self>, revision: Revision);
}

/// A batch of changes that is being collected.
pub(crate) trait Batch: Send {
    /// Adds a created or changed object; for one that cannot be decoded the revision only.
    ///
    /// # Errors
    /// When the object cannot be decoded.
    fn set(&mut self, object: Object) -> Result<(), Status>;
    /// Adds a deleted object; the revision only where its name cannot be read.
    ///
    /// # Errors
    /// When the object's name cannot be read.
    fn delete(&mut self, object: &Object) -> Result<(), Status>;
    /// Adds a revision up to which every change has been reported.
    fn mark(&mut self, revision: Revision);
    /// The number of changes collected.
    fn len(&self) -> usize;
    /// Applies the changes to the cache as a whole, and passes them to the relay.
    fn apply(self: Box<Self>);
}

impl<T: Project> Target for Cache<T> {
    fn progress(&self) -> Progress {
        Self::progress(self)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn complete_state(self: Arc<Self>) -> Box<dyn CompleteState> {
        Box::new(Collected { cache: self, items: Items::default() })
    }

    fn batch(self: Arc<Self>, room: usize) -> Box<dyn Batch> {
        let published = self.relay().is_published();
        Box::new(Changes { cache: self, deltas: Vec::with_capacity(room), published, objects: Vec::new() })
    }

    fn watching(&self) -> Watching<'_> {
        self.relay().watching()
    }

    fn join_relay(&self, before: Revision) -> Option<u64> {
        self.relay().join(before, self.revision())
    }

    fn next_of_relay(&self, series: u64, at: Revision) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            let Stretch { to, deltas, .. } = self.relay().next(series, at).await?;
            let told = deltas.len() as u64;
            // Changes at or before the cache's revision may concern objects that are deleted by now.
            let news = deltas.into_iter().filter(|delta| delta.revision() > at);
            self.apply(news.chain([Delta::Mark(to)]));
            Some(told)
        })
    }

    fn leave_relay(&self) {
        self.relay().leave();
    }
}

/// The objects of a complete state.
struct Collected<T> {
    cache: Arc<Cache<T>>,
    items: Items<T>,
}

impl<T: Project> CompleteState for Collected<T> {
    fn add(&mut self, object: &Object) -> Result<(), Status> {
        self.items.insert(known(&self.cache, object)?);
        Ok(())
    }

    fn remove(&mut self, object: &Object) -> Result<(), Status> {
        self.items.remove(&key(object)?);
        Ok(())
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn finish(self: Box<Self>, revision: Revision) {
        self.cache.replace(self.items, revision);
        self.cache.relay().begin();
    }
}

/// The changes of a batch.
struct Changes<T> {
    cache: Arc<Cache<T>>,
    deltas: Vec<Delta<T>>,
    /// Whether a publisher takes the changes, with the objects they were decoded from.
    published: bool,
    objects: Vec<Object>,
}

impl<T: Project> Batch for Changes<T> {
    fn set(&mut self, object: Object) -> Result<(), Status> {
        match self.cache.item(&object) {
            Ok(item) => {
                self.deltas.push(Delta::Set(item));
                self.objects.extend(self.published.then_some(object));
                Ok(())
            }
            Err(status) => {
                self.mark(object.revision);
                Err(status)
            }
        }
    }

    fn delete(&mut self, object: &Object) -> Result<(), Status> {
        match key(object) {
            Ok(key) => {
                self.deltas.push(Delta::Gone(key, object.revision));
                Ok(())
            }
            Err(status) => {
                self.mark(object.revision);
                Err(status)
            }
        }
    }

    fn mark(&mut self, revision: Revision) {
        self.deltas.push(Delta::Mark(revision));
    }

    fn len(&self) -> usize {
        self.deltas.len()
    }

    fn apply(self: Box<Self>) {
        let Self { cache, deltas, published, objects } = *self;
        let from = cache.revision();
        if published {
            cache.apply(deltas.iter().cloned());
            cache.relay().read((from, cache.revision()), deltas, objects);
        } else {
            cache.apply(deltas);
        }
    }
}

/// Decodes and projects an object, or returns the cached item if the cache has the same revision.
fn known<T: Project>(cache: &Cache<T>, object: &Object) -> Result<Arc<Item<T>>, Status> {
    if cache.is_empty() {
        return cache.item(object);
    }
    let head = object.head()?;
    let key = Key::new(head.namespace, head.name);
    unchanged(cache, &key, &head.uid, object).map_or_else(|| cache.item(object), Ok)
}

/// Returns the key of a deleted object, whose other fields are not needed.
fn key(object: &Object) -> Result<Key, Status> {
    let head = object.head()?;
    Ok(Key::new(head.namespace, head.name))
}

//! Export of all objects at one revision, independent of the log that stores them.

use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use oarlock_meta::Revision;
use oarlock_storage::snapshot::{Header, Object};
use oarlock_storage::{Error, Key, Log};

use crate::entry::{Entry, Indexer};
use crate::error::ReadError;
use crate::feeder;
use crate::view::{DEFAULT_WINDOW_BYTES, Snapshot, View};

/// How many objects are loaded at a time.
const OBJECTS_PER_LOAD: usize = 32;

/// The state at one revision; later writes to the View do not change it.
#[derive(Debug)]
pub struct Export {
    view: View,
    revision: Revision,
    /// Sorted by prefix, and so by key.
    snapshots: Vec<Snapshot>,
}

/// Reads a log that no server is using.
///
/// # Errors
/// Errors of the log; [`Error::Corrupt`] when its records do not follow from one another.
pub async fn read(log: &Arc<dyn Log>, indexer: &Arc<dyn Indexer>) -> Result<Export, Error> {
    let view = View::new(DEFAULT_WINDOW_BYTES);
    let loaded = feeder::load(log, &view, indexer).await?;
    Export::new(&view, loaded.revision).map_err(|error| Error::Corrupt(error.to_string()))
}

impl Export {
    /// Exports the View's state at `revision`.
    ///
    /// # Errors
    /// [`ReadError::Expired`] when `revision` is below the watch windows, [`ReadError::Future`] when the View has not applied it yet.
    pub fn new(view: &View, revision: Revision) -> Result<Self, ReadError> {
        let snapshots =
            view.prefixes().iter().map(|prefix| view.list_at(prefix, revision)).collect::<Result<_, _>>()?;
        Ok(Self { view: view.clone(), revision, snapshots })
    }

    /// Returns the header of the export's snapshot.
    #[must_use]
    pub fn header(&self) -> Header {
        let system = Key::cluster("/registry/namespaces/", "kube-system");
        let cluster = self.snapshots.iter().find_map(|snapshot| snapshot.get(&system));
        Header {
            cluster: cluster.map_or_else(String::new, |namespace| namespace.uid.to_string()),
            revision: self.revision,
            count: self.snapshots.iter().map(|snapshot| snapshot.len() as u64).sum(),
        }
    }

    /// Streams all objects by key, a few in memory at a time.
    pub fn objects(self) -> impl Stream<Item = Result<Object, ReadError>> + Send {
        let Self { view, snapshots, .. } = self;
        let entries = snapshots.into_iter().flat_map(Snapshot::into_entries);
        stream::iter(entries)
            .chunks(OBJECTS_PER_LOAD)
            .then(move |entries| {
                let view = view.clone();
                async move { stream::iter(ready(&view, entries).await) }
            })
            .flatten()
    }
}

/// Loads the objects of entries, whose bodies may be cold.
async fn ready(view: &View, entries: Vec<Arc<Entry>>) -> Vec<Result<Object, ReadError>> {
    let keys: Vec<Key> = entries.iter().map(|entry| entry.key.clone()).collect();
    let entries = match view.ready(entries).await {
        Ok(entries) => entries,
        Err(error) => return vec![Err(error)],
    };
    let object = |(key, entry): (Key, Option<Arc<Entry>>)| {
        // The version was replaced so long ago that the log has compacted it.
        let value = entry.as_ref().and_then(|entry| entry.value());
        let value =
            value.ok_or_else(|| ReadError::Log(format!("{key} was replaced, and what it was is known no more")))?;
        Ok(Object { key, revision: entry.map(|entry| entry.revision), value })
    };
    keys.into_iter().zip(entries).map(object).collect()
}

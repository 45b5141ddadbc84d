//! The initial load: an empty View is filled with the whole log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use oarlock_storage::{Error, Key, LoadPart, Loaded, Log};

use super::{RECORDS_PER_CHUNK, change, settle};
use crate::entry::{Entry, Indexer};
use crate::error::MissingChange;
use crate::offload::offload;
use crate::view::{Change, View};

/// The bounds of one batch between the reading and the applying thread: records and bytes.
const BATCH_BOUNDS: (usize, usize) = (256, 1 << 20);
/// How many batches the reading thread may be ahead.
const BATCHES_AHEAD: usize = 2;

/// Fills an empty View with the whole log: the state at its floor, then its history as the watch window.
///
/// # Errors
/// Errors of the log; [`Error::Corrupt`] when its records do not follow from one another.
pub(crate) async fn load(log: &Arc<dyn Log>, view: &View, indexer: &Arc<dyn Indexer>) -> Result<Loaded, Error> {
    let mut filling = InitialLoad::new(view.clone(), Arc::clone(indexer));
    if !log.blocks() {
        let loaded = log.load(&mut |piece| filling.take(piece)).await?;
        return filling.finish(loaded);
    }
    // One thread reads while another one decodes and applies.
    let (sender, receiver) = sync_channel::<Vec<LoadPart>>(BATCHES_AHEAD);
    let filled = tokio::task::spawn_blocking(move || {
        receiver.into_iter().flatten().for_each(|piece| filling.take(piece));
        filling
    });
    let loaded = offload(log, move |log| async move {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut each = |piece: LoadPart| {
            bytes += piece.bytes();
            batch.push(piece);
            if batch.len() >= BATCH_BOUNDS.0 || bytes >= BATCH_BOUNDS.1 {
                bytes = 0;
                // The receiver is dropped when the other thread has panicked, which is reported below.
                let _closed = sender.send(std::mem::take(&mut batch));
            }
        };
        let loaded = log.load(&mut each).await;
        let _closed = sender.send(batch);
        loaded
    });
    let loaded = loaded.await??;
    filled.await.map_err(|_| Error::Dead)?.finish(loaded)
}

/// A View during its initial load.
struct InitialLoad {
    view: View,
    indexer: Arc<dyn Indexer>,
    /// The state at the floor; incomplete while `floored` is false.
    base: BTreeMap<Key, Arc<Entry>>,
    floored: bool,
    chunk: Vec<Change>,
    hole: Option<MissingChange>,
}

impl InitialLoad {
    fn new(view: View, indexer: Arc<dyn Indexer>) -> Self {
        Self { view, indexer, base: BTreeMap::new(), floored: false, chunk: Vec::new(), hole: None }
    }

    fn take(&mut self, piece: LoadPart) {
        match piece {
            LoadPart::State(record) => settle(&mut self.base, change(record, &*self.indexer)),
            LoadPart::Floor(at) => {
                self.floored = true;
                self.view.reset(std::mem::take(&mut self.base).into_values(), at);
            }
            LoadPart::History(record) => {
                // Writes of one revision stay in one chunk.
                let whole = self.chunk.last().is_some_and(|last| last.revision < record.revision);
                if whole && self.chunk.len() >= RECORDS_PER_CHUNK {
                    self.apply();
                }
                self.chunk.push(change(record, &*self.indexer));
            }
        }
    }

    fn apply(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        if self.hole.is_none() {
            self.hole = self.view.apply(&chunk).err();
        }
    }

    fn finish(mut self, loaded: Loaded) -> Result<Loaded, Error> {
        if !self.floored {
            self.view.reset(std::mem::take(&mut self.base).into_values(), loaded.floor);
        }
        self.apply();
        match self.hole {
            Some(hole) => Err(Error::Corrupt(hole.to_string())),
            None => {
                self.view.advance(loaded.revision);
                Ok(loaded)
            }
        }
    }
}

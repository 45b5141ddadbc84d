//! The first load: an empty View is filled with everything the log has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use oarlock_storage::{Error, Key, Loaded, Log, Piece};

use super::{CHUNK, change, settle};
use crate::entry::{Entry, Indexer};
use crate::error::Hole;
use crate::offload::offload;
use crate::view::{Change, View};

/// Pieces handed from thread to thread at a time, and their bytes.
const HANDFUL: (usize, usize) = (256, 1 << 20);
/// Handfuls that are read before somebody looks at them.
const AHEAD: usize = 2;

/// Fills an empty View with everything the log has: the state at its floor, then its history as a warm watch window.
///
/// # Errors
/// The log's; or [`Error::Corrupt`] when its records do not follow from one another.
pub(crate) async fn load(log: &Arc<dyn Log>, view: &View, indexer: &Arc<dyn Indexer>) -> Result<Loaded, Error> {
    let mut filling = Filling::new(view.clone(), Arc::clone(indexer));
    if !log.blocks() {
        let loaded = log.load(&mut |piece| filling.take(piece)).await?;
        return filling.finish(loaded);
    }
    // One thread reads, while another one understands what was read.
    let (sender, receiver) = sync_channel::<Vec<Piece>>(AHEAD);
    let filled = tokio::task::spawn_blocking(move || {
        receiver.into_iter().flatten().for_each(|piece| filling.take(piece));
        filling
    });
    let loaded = offload(log, move |log| async move {
        let (mut handful, mut bytes) = (Vec::new(), 0);
        let mut each = |piece: Piece| {
            bytes += piece.bytes();
            handful.push(piece);
            if handful.len() >= HANDFUL.0 || bytes >= HANDFUL.1 {
                bytes = 0;
                // Nobody takes it when the other thread has panicked, which is told below.
                let _gone = sender.send(std::mem::take(&mut handful));
            }
        };
        let loaded = log.load(&mut each).await;
        let _gone = sender.send(handful);
        loaded
    });
    let loaded = loaded.await??;
    filled.await.map_err(|_| Error::Dead)?.finish(loaded)
}

/// A View that is being filled.
struct Filling {
    view: View,
    indexer: Arc<dyn Indexer>,
    /// The state at the floor, which has not come to its end yet while `floored` is false.
    base: BTreeMap<Key, Arc<Entry>>,
    floored: bool,
    chunk: Vec<Change>,
    hole: Option<Hole>,
}

impl Filling {
    fn new(view: View, indexer: Arc<dyn Indexer>) -> Self {
        Self { view, indexer, base: BTreeMap::new(), floored: false, chunk: Vec::new(), hole: None }
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::State(record) => settle(&mut self.base, change(record, &*self.indexer)),
            Piece::Floor(at) => {
                self.floored = true;
                self.view.reset(std::mem::take(&mut self.base).into_values(), at);
            }
            Piece::History(record) => {
                // Writes of one revision stay together.
                let whole = self.chunk.last().is_some_and(|last| last.revision < record.revision);
                if whole && self.chunk.len() >= CHUNK {
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

//! The open streams of a connection, and the frames that they queue for writing.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::frame::Frame;

/// A frame queued for writing.
#[derive(Debug)]
pub(super) enum Out {
    Frame(Frame),
    Data { id: u32, data: Bytes, fin: bool },
}

/// One open stream.
#[derive(Debug)]
pub(super) struct Entry {
    /// The queue of the stream's reader; `None` after the peer has ended the stream.
    pub(super) parts: Option<mpsc::Sender<Bytes>>,
    /// Completes when the peer has accepted the stream.
    pub(super) answered: Option<oneshot::Sender<()>>,
}

/// The streams with a live handle, by number.
#[derive(Debug, Default)]
pub(super) struct OpenStreams(Mutex<HashMap<u32, Entry>>);

impl OpenStreams {
    pub(super) fn insert(&self, id: u32, parts: Option<mpsc::Sender<Bytes>>, answered: Option<oneshot::Sender<()>>) {
        self.0.lock().insert(id, Entry { parts, answered });
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Removes all streams, which wakes the callers that wait for data or a reply.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Removes a stream. Returns whether the peer had ended the stream.
    pub(super) fn forget(&self, id: u32) -> bool {
        self.0.lock().remove(&id).is_none_or(|entry| entry.parts.is_none())
    }

    pub(super) fn parts(&self, id: u32) -> Option<mpsc::Sender<Bytes>> {
        self.0.lock().get(&id).and_then(|entry| entry.parts.clone())
    }

    pub(super) fn change(&self, id: u32, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.0.lock().get_mut(&id) {
            change(entry);
        }
    }
}

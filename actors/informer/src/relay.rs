//! The relay passes the changes that one process has read by a watch on to other processes, which then need no watch of their own.
//!
//! The process that watches is the publisher; the others are listeners. A [`Stretch`] holds the changes from one revision to another. A listener needs
//! no watch as long as each stretch begins at or before its cache's revision. A listener begins with a complete state and a watch of its own. It resumes
//! its watch at its cache's revision when a stretch is missing, when the publisher has taken a new complete state or falls silent, or when no publisher
//! is elected. At each revision a listener's cache therefore shows what its own watch would have shown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oarlock_client::Object;
use oarlock_meta::Revision;
use oarlock_runtime::rng;
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::item::Item;
use crate::key::Key;

/// The most received stretches that wait for the reflector; beyond this the oldest is dropped.
const MAX_WAITING_STRETCHES: usize = 256;

/// One change of a resource, as read from a watch.
#[derive(Debug)]
pub enum Delta<T> {
    /// The object was created or changed to this state.
    Set(Arc<Item<T>>),
    /// The object was deleted at this revision.
    Gone(Key, Revision),
    /// Every change up to this revision has been reported (a bookmark).
    Mark(Revision),
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Set(item) => Self::Set(Arc::clone(item)),
            Self::Gone(key, revision) => Self::Gone(key.clone(), *revision),
            Self::Mark(revision) => Self::Mark(*revision),
        }
    }
}

impl<T> Delta<T> {
    /// The revision of the change.
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Set(item) => item.meta.revision,
            Self::Gone(_, revision) | Self::Mark(revision) => *revision,
        }
    }
}

/// All changes of a resource after one revision and up to another. A listener applies a stretch as a whole.
#[derive(Debug)]
pub struct Stretch<T> {
    /// A random number for the publisher's last complete state, which these changes follow. Revisions of different series are not comparable.
    pub series: u64,
    /// The revision before the first change.
    pub from: Revision,
    /// The revision of the last change.
    pub to: Revision,
    /// The changes; for one object all of them in order, or only the last.
    pub deltas: Vec<Delta<T>>,
}

/// A stretch with the objects it was decoded from, so that a publisher need not encode them again.
#[derive(Debug)]
pub struct Read<T> {
    /// The decoded changes.
    pub stretch: Stretch<T>,
    /// The encoded objects: one for each [`Delta::Set`], in the same order.
    pub objects: Vec<Object>,
}

/// The relay of one cache: passes the changes that its reflector reads to a publisher, and stretches received from another process to its reflector.
#[derive(Debug)]
pub struct Relay<T> {
    publisher: Mutex<Publisher<T>>,
    /// Whether the reflector has a watch. Only then does the absence of events mean that nothing changed.
    watches: AtomicBool,
    listener: Mutex<Listener<T>>,
    received: Notify,
}

/// Marks the reflector as watching until this guard is dropped.
pub(crate) struct Watching<'a>(&'a AtomicBool);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Publisher<T> {
    series: u64,
    to: Option<mpsc::Sender<Read<T>>>,
}

#[derive(Debug)]
struct Listener<T> {
    /// The epoch of the elected publisher; stretches of other epochs are ignored.
    epoch: Option<Revision>,
    /// Received stretches of one series. Only the last one unless `followed`, because a reflector that begins to follow needs no older one.
    waiting: VecDeque<Stretch<T>>,
    followed: bool,
}

impl<T> Default for Relay<T> {
    fn default() -> Self {
        Self {
            publisher: Mutex::new(Publisher { series: 0, to: None }),
            watches: AtomicBool::new(false),
            listener: Mutex::new(Listener { epoch: None, waiting: VecDeque::new(), followed: false }),
            received: Notify::new(),
        }
    }
}

impl<T> Relay<T> {
    /// Publishes the changes that the reflector reads from now on, until the receiver is dropped. A stretch is lost when `room` stretches are waiting already.
    pub fn publish(&self, room: usize) -> mpsc::Receiver<Read<T>> {
        let (to, from) = mpsc::channel(room);
        self.publisher.lock().to = Some(to);
        from
    }

    /// Accepts stretches only of the publisher with this epoch from now on; with `None` of no publisher.
    pub fn set_publisher_epoch(&self, epoch: Option<Revision>) {
        let mut listener = self.listener.lock();
        if std::mem::replace(&mut listener.epoch, epoch) != epoch {
            listener.waiting.clear();
            drop(listener);
            self.received.notify_one();
        }
    }

    /// Takes a stretch that was received from the publisher of this epoch.
    pub fn receive(&self, epoch: Revision, stretch: Stretch<T>) {
        let mut listener = self.listener.lock();
        if listener.epoch != Some(epoch) {
            return;
        }
        if !listener.followed || listener.waiting.back().is_some_and(|last| last.series != stretch.series) {
            listener.waiting.clear();
        }
        if listener.waiting.len() == MAX_WAITING_STRETCHES {
            listener.waiting.pop_front();
        }
        listener.waiting.push_back(stretch);
        drop(listener);
        self.received.notify_one();
    }

    /// Whether the reflector has a watch, so that the absence of events means that nothing changed.
    pub fn watches(&self) -> bool {
        self.watches.load(Ordering::Relaxed)
    }

    /// Marks the reflector as watching for as long as the guard lives.
    pub(crate) fn watching(&self) -> Watching<'_> {
        self.watches.store(true, Ordering::Relaxed);
        Watching(&self.watches)
    }

    /// Whether a publisher takes what the reflector reads.
    pub(crate) fn is_published(&self) -> bool {
        self.publisher.lock().to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// Begins a new series, because the reflector has taken a complete state.
    pub(crate) fn begin(&self) {
        self.publisher.lock().series = rng::below(u64::MAX);
    }

    /// Passes the changes that the reflector has read to the publisher.
    pub(crate) fn read(&self, (from, to): (Revision, Revision), deltas: Vec<Delta<T>>, objects: Vec<Object>) {
        let publisher = self.publisher.lock();
        if let Some(sender) = &publisher.to {
            // A listener notices the missing stretch and resumes its own watch.
            let _full =
                sender.try_send(Read { stretch: Stretch { series: publisher.series, from, to, deltas }, objects });
        }
    }

    /// Returns the series that a reflector follows from now on, if the newest stretch connects to the batch that its watch has just applied, which
    /// led from revision `before` to `at`.
    pub(crate) fn join(&self, before: Revision, at: Revision) -> Option<u64> {
        let mut listener = self.listener.lock();
        let series = listener.waiting.back().filter(|newest| newest.from <= at && newest.to >= before)?.series;
        listener.followed = true;
        Some(series)
    }

    /// Records that the reflector follows no series any more.
    pub(crate) fn leave(&self) {
        self.listener.lock().followed = false;
    }

    /// Waits for the next stretch of a series for a cache at revision `at`. `None` when the stretch does not connect, is of another series, or no
    /// publisher is elected. Cancel safe.
    pub(crate) async fn next(&self, series: u64, at: Revision) -> Option<Stretch<T>> {
        loop {
            let received = self.received.notified();
            {
                let mut listener = self.listener.lock();
                listener.epoch?;
                if let Some(stretch) = listener.waiting.pop_front() {
                    let gap = stretch.from > at && !seeded_bug!("feed_over_a_gap");
                    return (stretch.series == series && !gap).then_some(stretch);
                }
            }
            received.await;
        }
    }
}

#[cfg(test)]
mod tests;

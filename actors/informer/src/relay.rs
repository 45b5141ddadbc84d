//! What one process has read of a resource, handed to others that read the same, so that they need not watch it themselves.
//!
//! A [`Stretch`] is what has changed from one revision to another. Who is told them needs no watch as long as each begins no later than where its cache
//! stands. A cache begins with a state and a watch of its own, and goes back to a watch from where it stands when a stretch is missing, the teller has
//! taken a new state or falls silent, or nobody is believed any more. So it shows at each revision what it would show by itself.

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

/// Stretches that may wait for the reader.
const WAITING: usize = 256;

/// One change.
#[derive(Debug)]
pub enum Delta<T> {
    /// The object is this now.
    Set(Arc<Item<T>>),
    /// The object is gone since this revision.
    Gone(Key, Revision),
    /// Nothing else happened up to this revision.
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
    /// When it happened.
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Set(item) => item.meta.revision,
            Self::Gone(_, revision) | Self::Mark(revision) => *revision,
        }
    }
}

/// What became of everything that has changed after one revision and up to another. It is taken as a whole.
#[derive(Debug)]
pub struct Stretch<T> {
    /// Which of the states that the teller has taken it follows. Revisions of different series are not compared.
    pub series: u64,
    /// After this revision.
    pub from: Revision,
    /// Up to this one.
    pub to: Revision,
    /// The changes; of one object in their order, or the last.
    pub deltas: Vec<Delta<T>>,
}

/// A stretch as it was read.
#[derive(Debug)]
pub struct Read<T> {
    /// What was made of it.
    pub stretch: Stretch<T>,
    /// What was read: one for each [`Delta::Set`], in their order.
    pub objects: Vec<Object>,
}

/// Between one reflector and those who tell and hear for it. See the module text.
#[derive(Debug)]
pub struct Relay<T> {
    mouth: Mutex<Mouth<T>>,
    /// Whether the reflector has a watch: without one it does not know that nothing has happened.
    watches: AtomicBool,
    ear: Mutex<Ear<T>>,
    heard: Notify,
}

/// The reflector has a watch, as long as this lives.
pub(crate) struct Watching<'a>(&'a AtomicBool);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Mouth<T> {
    series: u64,
    to: Option<mpsc::Sender<Read<T>>>,
}

#[derive(Debug)]
struct Ear<T> {
    /// The epoch of the teller that is believed.
    believed: Option<Revision>,
    /// Of one series. While nobody follows, only the last one: who begins to needs no other.
    waiting: VecDeque<Stretch<T>>,
    followed: bool,
}

impl<T> Default for Relay<T> {
    fn default() -> Self {
        Self {
            mouth: Mutex::new(Mouth { series: 0, to: None }),
            watches: AtomicBool::new(false),
            ear: Mutex::new(Ear { believed: None, waiting: VecDeque::new(), followed: false }),
            heard: Notify::new(),
        }
    }
}

impl<T> Relay<T> {
    /// What is read from now on, until the receiver is dropped. What finds no room is not told.
    pub fn tell(&self, room: usize) -> mpsc::Receiver<Read<T>> {
        let (to, from) = mpsc::channel(room);
        self.mouth.lock().to = Some(to);
        from
    }

    /// From now on the teller of this epoch is believed, and nobody else; with none, nobody.
    pub fn believe(&self, epoch: Option<Revision>) {
        let mut ear = self.ear.lock();
        if std::mem::replace(&mut ear.believed, epoch) != epoch {
            ear.waiting.clear();
            drop(ear);
            self.heard.notify_one();
        }
    }

    /// A stretch that the teller of this epoch tells.
    pub fn hear(&self, epoch: Revision, stretch: Stretch<T>) {
        let mut ear = self.ear.lock();
        if ear.believed != Some(epoch) {
            return;
        }
        if !ear.followed || ear.waiting.back().is_some_and(|last| last.series != stretch.series) {
            ear.waiting.clear();
        }
        if ear.waiting.len() == WAITING {
            ear.waiting.pop_front();
        }
        ear.waiting.push_back(stretch);
        drop(ear);
        self.heard.notify_one();
    }

    /// Whether the reflector has a watch now, so that silence means that nothing has happened.
    pub fn watches(&self) -> bool {
        self.watches.load(Ordering::Relaxed)
    }

    /// The reflector has a watch from now on.
    pub(crate) fn watching(&self) -> Watching<'_> {
        self.watches.store(true, Ordering::Relaxed);
        Watching(&self.watches)
    }

    /// Whether what is read is told.
    pub(crate) fn is_told(&self) -> bool {
        self.mouth.lock().to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// The reflector has taken a whole state.
    pub(crate) fn begin(&self) {
        self.mouth.lock().series = rng::below(u64::MAX);
    }

    /// The reflector has read on.
    pub(crate) fn read(&self, (from, to): (Revision, Revision), deltas: Vec<Delta<T>>, objects: Vec<Object>) {
        let mouth = self.mouth.lock();
        if let Some(teller) = &mouth.to {
            // Who hears finds a stretch missing.
            let _full = teller.try_send(Read { stretch: Stretch { series: mouth.series, from, to, deltas }, objects });
        }
    }

    /// The series that a reflector follows from now on whose watch has just brought it from `before` to `at`: one that is at most so much behind.
    pub(crate) fn join(&self, before: Revision, at: Revision) -> Option<u64> {
        let mut ear = self.ear.lock();
        let series = ear.waiting.back().filter(|newest| newest.from <= at && newest.to >= before)?.series;
        ear.followed = true;
        Some(series)
    }

    /// The reflector follows nobody any more.
    pub(crate) fn leave(&self) {
        self.ear.lock().followed = false;
    }

    /// The next stretch of a series for one who stands at `at`; `None` when there will be none. Cancel safe.
    pub(crate) async fn next(&self, series: u64, at: Revision) -> Option<Stretch<T>> {
        loop {
            let heard = self.heard.notified();
            {
                let mut ear = self.ear.lock();
                ear.believed?;
                if let Some(stretch) = ear.waiting.pop_front() {
                    let gap = stretch.from > at && !seeded_bug!("feed_over_a_gap");
                    return (stretch.series == series && !gap).then_some(stretch);
                }
            }
            heard.await;
        }
    }
}

#[cfg(test)]
mod tests;

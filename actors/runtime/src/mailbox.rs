//! Bounded mailboxes: a permit travels with each message from the sender to the moment the handler takes it.
//!
//! ractor's own queues are unbounded, so the bound lives here: a semaphore per actor, shared by all its incarnations.
//! A permit is given back when the handler begins, or when the message is dropped with its incarnation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::clock::{self, Instant};
use crate::slot::Slot;

/// What ractor's queue of an incarnation holds.
pub(crate) enum Envelope<M> {
    /// Somebody's message, with its place in the queue and the span it was sent in.
    Message { body: M, ticket: Ticket, span: tracing::Span },
    /// The runtime asks for the actor's observable state; at most one waits per actor.
    Observe(oneshot::Sender<()>),
}

/// The bound of one actor's queue and what waits in it.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) bound: usize,
    waiting: Mutex<VecDeque<Instant>>,
    peak: AtomicUsize,
}

impl Mailbox {
    pub(crate) fn new(bound: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(bound)), bound, waiting: Mutex::default(), peak: AtomicUsize::new(0) }
    }

    /// Messages that wait now, never more than the bound.
    pub(crate) fn depth(&self) -> usize {
        self.waiting.lock().len()
    }

    /// The most that ever waited.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// When the longest waiting message was sent.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.lock().front().copied()
    }

    fn enter(&self) {
        let at = clock::now();
        let mut waiting = self.waiting.lock();
        waiting.push_back(at);
        self.peak.fetch_max(waiting.len(), Ordering::Relaxed);
    }

    fn leave(&self) {
        self.waiting.lock().pop_front();
    }
}

/// A message's place in the queue. Dropping it makes room for another.
pub(crate) struct Ticket {
    slot: Arc<Slot>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    pub(crate) fn new(slot: Arc<Slot>, permit: OwnedSemaphorePermit) -> Self {
        slot.mailbox.enter();
        Self { slot, permit: Some(permit) }
    }

    /// Leaves the queue but keeps the permit, for a message that an incarnation refused.
    pub(crate) fn withdraw(mut self) -> Option<OwnedSemaphorePermit> {
        self.permit.take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.slot.mailbox.leave();
    }
}

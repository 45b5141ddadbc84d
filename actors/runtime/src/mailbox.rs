//! Bounded mailboxes: a permit travels with each message from the sender to the moment the handler takes it.
//!
//! ractor's queues are unbounded, so each actor has a semaphore, shared by all its incarnations. A permit is released when the handler begins, or
//! when the message is dropped with its incarnation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::clock::{self, Instant};

/// An element of ractor's queue of an incarnation.
pub(crate) enum Envelope<M> {
    /// A message, with its place in the queue and the span of its sender.
    Message { body: M, ticket: Ticket, span: tracing::Span },
    /// A request for the actor's observable state; at most one per actor is queued.
    Observe(oneshot::Sender<()>),
}

/// The bound of one actor's queue and the send times of its queued messages.
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

    /// Returns the number of queued messages, at most the bound.
    pub(crate) fn depth(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Returns the largest number of messages that were ever queued.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Returns when the oldest queued message was sent.
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

/// A message's place in the queue. Dropping the ticket releases the place.
pub(crate) struct Ticket {
    mailbox: Arc<Mailbox>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    pub(crate) fn new(mailbox: Arc<Mailbox>, permit: OwnedSemaphorePermit) -> Self {
        mailbox.enter();
        Self { mailbox, permit: Some(permit) }
    }

    /// Leaves the queue but keeps the permit, for a message that an incarnation refused.
    pub(crate) fn withdraw(mut self) -> Option<OwnedSemaphorePermit> {
        self.permit.take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}

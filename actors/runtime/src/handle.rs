//! Handles: cheap clones that send messages to an actor and stay valid across restarts.

use std::convert::Infallible;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ractor::{ActorRef, MessagingErr};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::clock::{self, Instant};
use crate::error::SendError;
use crate::mailbox::{Envelope, Ticket};
use crate::slot::{Life, Slot};
use crate::stop;

/// Sends messages to an actor, whichever incarnation is running. One machine word; cheap to clone.
pub struct Handle<M> {
    pub(crate) typed: Arc<Typed<M>>,
}

/// The handle of an actor that is one long loop and takes no messages.
pub type LoopHandle = Handle<Infallible>;

/// An actor's slot together with the port of its current incarnation.
pub(crate) struct Typed<M> {
    pub(crate) slot: Arc<Slot>,
    pub(crate) port: ArcSwapOption<ActorRef<Envelope<M>>>,
}

impl<M> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { typed: self.typed.clone() }
    }
}

impl<M> std::fmt::Debug for Handle<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").field(&self.typed.slot.name).finish()
    }
}

impl<M: Send + 'static> Handle<M> {
    /// Puts a message into the mailbox without waiting.
    ///
    /// # Errors
    /// `Overloaded` when the mailbox is full, `Stopped` when no incarnation accepts messages (also during a back-off).
    pub fn try_send(&self, message: M) -> Result<(), SendError> {
        self.try_reserve()?.send(message)
    }

    /// Puts a message into the mailbox; waits until `deadline` for room or for the next incarnation. Delivery is at most once: messages queued at an
    /// incarnation that fails are dropped.
    ///
    /// # Errors
    /// `Overloaded` when there was no room, `Stopped` when there was no incarnation until `deadline` or the actor has
    /// ended.
    pub async fn send(&self, message: M, deadline: Instant) -> Result<(), SendError> {
        let permit = self.permit(deadline).await?;
        self.deliver(permit, message, deadline).await
    }

    /// Sends a message that carries a [`Reply`], and waits for the answer. `deadline` covers both.
    ///
    /// # Errors
    /// `Overloaded`: never delivered. `Stopped`: never delivered, or lost with its incarnation, or dropped without an answer. `Timeout`: delivered,
    /// not answered yet. After the last two the outcome is unknown.
    pub async fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> M, deadline: Instant) -> Result<T, SendError> {
        let permit = self.permit(deadline).await?;
        let (sender, receiver) = oneshot::channel();
        self.deliver(permit, message(Reply { sender }), deadline).await?;
        match clock::timeout_at(deadline, receiver).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(SendError::Stopped),
            Err(clock::Elapsed) => Err(SendError::Timeout),
        }
    }

    /// Reserves a place in the mailbox without waiting, for a message that is made later.
    ///
    /// # Errors
    /// `Overloaded` when the mailbox is full, `Stopped` when the actor has ended.
    pub fn try_reserve(&self) -> Result<Permit<M>, SendError> {
        match self.typed.slot.mailbox.permits.clone().try_acquire_owned() {
            Ok(permit) => Ok(Permit { handle: self.clone(), permit }),
            Err(tokio::sync::TryAcquireError::NoPermits) => Err(SendError::Overloaded),
            Err(tokio::sync::TryAcquireError::Closed) => Err(SendError::Stopped),
        }
    }

    /// Reserves a place in the mailbox; waits for one until `deadline`. First come, first served.
    ///
    /// # Errors
    /// `Overloaded` when the mailbox was full until `deadline`, `Stopped` when the actor has ended.
    pub async fn reserve(&self, deadline: Instant) -> Result<Permit<M>, SendError> {
        let permit = self.permit(deadline).await?;
        Ok(Permit { handle: self.clone(), permit })
    }

    async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, SendError> {
        let permits = &self.typed.slot.mailbox.permits;
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        match clock::timeout_at(deadline, permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(SendError::Stopped),
            Err(clock::Elapsed) => Err(SendError::Overloaded),
        }
    }

    async fn deliver(&self, permit: OwnedSemaphorePermit, message: M, deadline: Instant) -> Result<(), SendError> {
        let Err(mut refused) = self.put(permit, message) else { return Ok(()) };
        let slot = &self.typed.slot;
        loop {
            let mut changed = std::pin::pin!(slot.changed());
            changed.as_mut().enable();
            let Some((permit, message)) = refused.take() else { return Err(SendError::Stopped) };
            match self.put(permit, message) {
                Ok(()) => return Ok(()),
                Err(again) => refused = again,
            }
            if slot.life() >= Life::Stopping || clock::timeout_at(deadline, changed).await.is_err() {
                return Err(SendError::Stopped);
            }
        }
    }

    /// Hands the message to the current incarnation; returns the message when no incarnation accepts it.
    fn put(&self, permit: OwnedSemaphorePermit, message: M) -> Result<(), Option<(OwnedSemaphorePermit, M)>> {
        let port = self.typed.port.load();
        let Some(port) = port.as_ref() else { return Err(Some((permit, message))) };
        let ticket = Ticket::new(self.typed.slot.mailbox.clone(), permit);
        let span = tracing::Span::current();
        match port.send_message(Envelope::Message { body: message, ticket, span }) {
            Ok(()) => Ok(()),
            Err(MessagingErr::SendErr(Envelope::Message { body, ticket, .. })) => {
                Err(ticket.withdraw().map(|permit| (permit, body)))
            }
            Err(_) => Err(None),
        }
    }
}

impl<M> Handle<M> {
    /// Returns the actor's address in logs and in `/debug/actors`: `kind/key`.
    pub fn name(&self) -> &str {
        &self.typed.slot.name
    }

    /// Returns the actor's key, unique within its kind.
    pub fn key(&self) -> &str {
        &self.typed.slot.key
    }

    /// Returns the state of the actor's life cycle.
    pub fn life(&self) -> Life {
        self.typed.slot.life()
    }

    /// Returns the number of queued messages, at most the kind's mailbox bound.
    pub fn queued(&self) -> usize {
        self.typed.slot.mailbox.depth()
    }

    /// Asks the actor to stop for good, as its kind's `on_shutdown` says; the actor is not restarted. Returns at once.
    pub fn stop(&self) {
        stop::ask_to_stop(&self.typed.slot);
    }

    /// Waits until an incarnation has started.
    ///
    /// # Errors
    /// `Stopped` when the actor is stopping or has ended, `Timeout` when no incarnation was running at `deadline`.
    pub async fn running(&self, deadline: Instant) -> Result<(), SendError> {
        let there = self.typed.slot.until(|life| life == Life::Running || life >= Life::Stopping);
        match clock::timeout_at(deadline, there).await {
            Ok(Life::Running) => Ok(()),
            Ok(_) => Err(SendError::Stopped),
            Err(clock::Elapsed) => Err(SendError::Timeout),
        }
    }

    /// Waits until the actor has ended; returns the failure that ended it, if there was one.
    ///
    /// # Errors
    /// `Timeout` when the actor had not ended at `deadline`.
    pub async fn ended(&self, deadline: Instant) -> Result<Option<String>, SendError> {
        match clock::timeout_at(deadline, self.typed.slot.until(|life| life == Life::Ended)).await {
            Ok(_) => Ok(self.typed.slot.end_error.lock().clone()),
            Err(clock::Elapsed) => Err(SendError::Timeout),
        }
    }
}

/// A reserved place in an actor's mailbox. Dropping the permit releases the place.
pub struct Permit<M> {
    handle: Handle<M>,
    permit: OwnedSemaphorePermit,
}

impl<M: Send + 'static> Permit<M> {
    /// Puts the message into the reserved place.
    ///
    /// # Errors
    /// `Stopped` when no incarnation accepts messages.
    pub fn send(self, message: M) -> Result<(), SendError> {
        self.handle.put(self.permit, message).map_err(|_| SendError::Stopped)
    }
}

/// The sender of an answer to an ask. If dropped without an answer, the asker gets `Stopped`.
#[derive(Debug)]
pub struct Reply<T> {
    sender: oneshot::Sender<T>,
}

impl<T> Reply<T> {
    /// Returns a reply and its receiver, for answers that are not sent through a handle.
    pub fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self { sender }, receiver)
    }

    /// Sends the answer. An asker that has stopped waiting is no error.
    pub fn send(self, answer: T) {
        // the asker may have met its deadline
        let _ = self.sender.send(answer);
    }

    /// Whether the asker has stopped waiting, so that costly work for the answer can be skipped.
    pub fn abandoned(&self) -> bool {
        self.sender.is_closed()
    }
}

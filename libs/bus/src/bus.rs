//! What everybody holds.

use std::sync::{Arc, Weak};
use std::time::Duration;

use prost::Name;
use tokio::time::Instant;

use crate::ask::Asks;
use crate::envelope;
use crate::error::{AskError, HintError, ListenError};
use crate::hints::Hints;
use crate::link::State;
use crate::memory::{self, Exchange};
use crate::proof;
use crate::proto::bus::v1::KindStats;
use crate::queue::Queue;
use crate::role::Identity;
use crate::stats::Stats;
use crate::subject::{Pattern, Subject};
use crate::subjects::Carries;
use crate::trace::{self, TraceContext};
use crate::transport::{Proof, Transport};

/// One member's voice and ears. Clones are the same member over the same connection, which ends with the last of them, its [`Asks`] and [`Hints`].
#[derive(Clone, Debug)]
pub struct Bus {
    inner: Arc<Inner>,
}

/// A bus that somebody else holds.
#[derive(Clone, Debug)]
pub struct WeakBus(Weak<Inner>);

impl WeakBus {
    /// The bus, as long as somebody holds it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Bus> {
        self.0.upgrade().map(|inner| Bus { inner })
    }
}

#[derive(Debug)]
struct Inner {
    identity: Identity,
    transport: Arc<dyn Transport>,
    stats: Arc<Stats>,
}

impl Bus {
    /// A member of an exchange in this process.
    #[must_use]
    pub fn memory(exchange: &Exchange, identity: Identity) -> Self {
        let transport = Arc::new(memory::Memory::new(exchange, identity.clone()));
        Self::over(transport, identity, Arc::default())
    }

    pub(crate) fn over(transport: Arc<dyn Transport>, identity: Identity, stats: Arc<Stats>) -> Self {
        Self { inner: Arc::new(Inner { identity, transport, stats }) }
    }

    /// The same without holding it.
    #[must_use]
    pub fn downgrade(&self) -> WeakBus {
        WeakBus(Arc::downgrade(&self.inner))
    }

    /// Whose voice it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Asks, and waits for the first answer for `budget` at most. Asks are made so that asking again does no harm; [`AskError::certainly_not_begun`] tells
    /// where it cannot.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn ask<Q: Name, A: Name + Default>(
        &self,
        subject: &Subject,
        question: &Q,
        budget: Duration,
    ) -> Result<A, AskError> {
        let began = Instant::now();
        let result = self.request(subject, question, budget, began + budget, false).await;
        let result = result.and_then(|(_, answer)| envelope::outcome(answer, |_, _| Ok(())));
        self.inner.stats.of(subject.row().kind).asked(began.elapsed(), &result);
        result
    }

    /// As [`Bus::ask`], for answers that decide something: only an answer counts that a member of the subject's role has signed, for exactly this question.
    /// Within one process no signature is needed.
    ///
    /// # Errors
    /// See [`AskError`]. Where the role's key is not known, [`AskError::Unproven`] before anything is sent.
    pub async fn ask_proven<Q: Name, A: Name + Default>(
        &self,
        subject: &Subject,
        question: &Q,
        budget: Duration,
    ) -> Result<A, AskError> {
        let began = Instant::now();
        let result = self.proven(subject, question, budget, began + budget).await;
        self.inner.stats.of(subject.row().kind).asked(began.elapsed(), &result);
        result
    }

    async fn proven<Q: Name, A: Name + Default>(
        &self,
        subject: &Subject,
        question: &Q,
        budget: Duration,
        deadline: Instant,
    ) -> Result<A, AskError> {
        let key = match subject.role().map_or(Proof::None, |role| self.inner.transport.proof_of(role)) {
            Proof::Process => None,
            Proof::Key(key) => Some(key),
            Proof::None => {
                return Err(AskError::Unproven(format!("no key is known of those who answer on {subject}")));
            }
        };
        let (payload, answer) = self.request(subject, question, budget, deadline, true).await?;
        envelope::outcome(answer, |done, signature| match key {
            Some(key) => proof::check(key, subject, &proof::asked(&payload), done, signature),
            None => Ok(()),
        })
    }

    /// What was sent, and what came back.
    async fn request<Q: Name>(
        &self,
        subject: &Subject,
        question: &Q,
        budget: Duration,
        deadline: Instant,
        wants_proof: bool,
    ) -> Result<(bytes::Bytes, bytes::Bytes), AskError> {
        let (inner, row) = (&*self.inner, subject.row());
        if row.carries != Carries::Asks || !row.may_publish(&inner.identity, subject.as_str()) {
            return Err(AskError::Denied(subject.to_string()));
        }
        if budget.is_zero() {
            return Err(AskError::Expired);
        }
        let payload = self.seal(question, budget, wants_proof);
        let limit = inner.transport.max_payload();
        if payload.len() > limit {
            return Err(AskError::TooLarge { bytes: payload.len(), limit });
        }
        inner.stats.of(row.kind).sent.count(payload.len());
        let answer = inner.transport.request(subject, payload.clone(), deadline).await?;
        Ok((payload, answer))
    }

    /// Sends a hint, which may be lost on every part of its way. Never waits.
    ///
    /// # Errors
    /// Where it was certainly not sent, see [`HintError`]; most senders need not care.
    pub fn hint<M: Name>(&self, subject: &Subject, message: &M) -> Result<(), HintError> {
        let (inner, row) = (&*self.inner, subject.row());
        let stats = inner.stats.of(row.kind);
        if row.carries != Carries::Hints || !row.may_publish(&inner.identity, subject.as_str()) {
            stats.refused();
            return Err(HintError::Denied(subject.to_string()));
        }
        let payload = self.seal(message, Duration::ZERO, false);
        let (bytes, limit) = (payload.len(), inner.transport.max_payload());
        if bytes > limit {
            return Err(HintError::TooLarge { bytes, limit });
        }
        inner.transport.publish(subject, payload)?;
        stats.sent.count(bytes);
        Ok(())
    }

    /// An envelope in the trace of the current [`trace::scope`], or in one of its own.
    fn seal<M: Name>(&self, message: &M, budget: Duration, wants_proof: bool) -> bytes::Bytes {
        let (process, number) = self.inner.transport.number();
        let root = || TraceContext::root(u128::from(process) << 64 | u128::from(number), number);
        let trace = trace::current().map(|context| context.child(number)).or_else(root);
        envelope::seal(message, &self.inner.identity, (process, number), budget, trace, wants_proof)
    }

    /// Hears the asks of a pattern, over this connection and every later one. `capacity` asks wait at most; who finds no room is answered
    /// `Overloaded` at once. When this returns, and there is a connection, the server knows.
    ///
    /// # Errors
    /// When the table does not let this member hear the pattern, or it carries hints.
    pub async fn serve(&self, pattern: &Pattern, capacity: usize) -> Result<Asks, ListenError> {
        let (queue, stats) = self.queue(pattern, capacity, Carries::Asks)?;
        let subscription = self.inner.transport.subscribe(pattern, queue.clone()).await;
        Ok(Asks { queue, subscription: Some(subscription), stats })
    }

    /// Hears the hints of a pattern, over this connection and every later one. `capacity` hints wait at most; what finds no room is lost, and
    /// [told](crate::Heard::Lost). When this returns, and there is a connection, the server knows.
    ///
    /// # Errors
    /// When the table does not let this member hear the pattern, or it carries asks.
    pub async fn listen(&self, pattern: &Pattern, capacity: usize) -> Result<Hints, ListenError> {
        let (queue, stats) = self.queue(pattern, capacity, Carries::Hints)?;
        let subscription = self.inner.transport.subscribe(pattern, queue.clone()).await;
        Ok(Hints { queue, _subscription: subscription, stats })
    }

    fn queue(
        &self,
        pattern: &Pattern,
        capacity: usize,
        carries: Carries,
    ) -> Result<(Arc<Queue>, Arc<crate::stats::KindStats>), ListenError> {
        let (row, stats) = (pattern.row(), self.inner.stats.of(pattern.row().kind));
        if row.carries != carries {
            return Err(ListenError::OtherSort(pattern.to_string()));
        }
        if !row.may_hear(&self.inner.identity, pattern.as_str()) {
            stats.refused();
            return Err(ListenError::Denied(pattern.to_string()));
        }
        Ok((Arc::new(Queue::new(capacity, stats.clone())), stats))
    }

    /// Returns when the server has what was sent before, or soon when it does not take it: for a last word.
    pub async fn flush(&self) {
        self.inner.transport.flush().await;
    }

    /// Whether there is a connection, and which.
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.transport.link().get()
    }

    /// Waits for a state that is wanted, and returns it. Cancel safe.
    pub async fn wait_for(&self, wanted: impl Fn(&State) -> bool) -> State {
        self.inner.transport.link().wait_for(wanted).await
    }

    /// What it has carried, per kind of subject.
    #[must_use]
    pub fn stats(&self) -> Vec<KindStats> {
        self.inner.stats.snapshot()
    }
}

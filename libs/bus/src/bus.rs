//! [`Bus`]: a process's handle on the message bus.

use std::sync::{Arc, Weak};
use std::time::Duration;

use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces;
use oarlock_telemetry::traces::opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
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
use crate::subjects::Traffic;
use crate::transport::{Proof, Transport};

/// One member's handle on the bus. Clones share the member and its connection, which is closed when the last clone and the last of its [`Asks`] and [`Hints`] are dropped.
#[derive(Clone, Debug)]
pub struct Bus {
    inner: Arc<Inner>,
}

/// A weak reference to a [`Bus`]; it does not keep the connection open.
#[derive(Clone, Debug)]
pub struct WeakBus(Weak<Inner>);

impl WeakBus {
    /// Returns the bus, while another handle keeps it alive.
    #[must_use]
    pub fn upgrade(&self) -> Option<Bus> {
        self.0.upgrade().map(|inner| Bus { inner })
    }
}

/// Shared state of all clones of a [`Bus`].
#[derive(Debug)]
struct Inner {
    identity: Identity,
    transport: Arc<dyn Transport>,
    stats: Arc<Stats>,
}

impl Bus {
    /// Joins an in-process exchange as a member.
    #[must_use]
    pub fn memory(exchange: &Exchange, identity: Identity) -> Self {
        let transport = Arc::new(memory::Memory::new(exchange, identity.clone()));
        Self::over(transport, identity, Arc::default())
    }

    pub(crate) fn over(transport: Arc<dyn Transport>, identity: Identity, stats: Arc<Stats>) -> Self {
        Self { inner: Arc::new(Inner { identity, transport, stats }) }
    }

    /// Returns a weak reference to this bus.
    #[must_use]
    pub fn downgrade(&self) -> WeakBus {
        WeakBus(Arc::downgrade(&self.inner))
    }

    /// Returns the identity of the member.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Sends an ask and waits for the first answer, at most for `budget`. Repeating an ask must be harmless; where it is not, [`AskError::certainly_not_begun`] says whether a
    /// repetition is safe.
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

    /// As [`Bus::ask`], for answers that decide something: accepts only an answer that a member of the subject's role has signed for exactly this question. Members of one
    /// process need no signature.
    ///
    /// # Errors
    /// See [`AskError`]. [`AskError::Unproven`] before anything is sent when the role's key is not known.
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

    /// Returns the envelope as sent, and the answer.
    async fn request<Q: Name>(
        &self,
        subject: &Subject,
        question: &Q,
        budget: Duration,
        deadline: Instant,
        wants_proof: bool,
    ) -> Result<(bytes::Bytes, bytes::Bytes), AskError> {
        let (inner, row) = (&*self.inner, subject.row());
        if row.carries != Traffic::Asks || !row.may_publish(&inner.identity, subject.as_str()) {
            return Err(AskError::Denied(subject.to_string()));
        }
        if budget.is_zero() {
            return Err(AskError::Expired);
        }
        let payload = self.seal(question, budget, row.carries, wants_proof);
        let limit = inner.transport.max_payload();
        if payload.len() > limit {
            return Err(AskError::TooLarge { bytes: payload.len(), limit });
        }
        inner.stats.of(row.kind).sent.count(payload.len());
        let answer = inner.transport.request(subject, payload.clone(), deadline).await?;
        Ok((payload, answer))
    }

    /// Sends a hint without waiting. Hints may be lost anywhere on the way.
    ///
    /// # Errors
    /// When the hint was certainly not sent, see [`HintError`]; most senders can ignore the error.
    pub fn hint<M: Name>(&self, subject: &Subject, message: &M) -> Result<(), HintError> {
        let (inner, row) = (&*self.inner, subject.row());
        let stats = inner.stats.of(row.kind);
        if row.carries != Traffic::Hints || !row.may_publish(&inner.identity, subject.as_str()) {
            stats.refused();
            return Err(HintError::Denied(subject.to_string()));
        }
        let payload = self.seal(message, Duration::ZERO, row.carries, false);
        let (bytes, limit) = (payload.len(), inner.transport.max_payload());
        if bytes > limit {
            return Err(HintError::TooLarge { bytes, limit });
        }
        inner.transport.publish(subject, payload)?;
        stats.sent.count(bytes);
        Ok(())
    }

    /// Builds an envelope with the context of the span that runs: the parent of the work that an ask begins, and the target of a link of the work that a hint begins. An ask outside every span begins a new trace,
    /// for logs. A new trace is not sampled, because no span of it is recorded here: asks outside every span, as polls are, make none elsewhere either. A hint outside every span has no context, since
    /// a link would lead nowhere.
    fn seal<M: Name>(&self, message: &M, budget: Duration, carries: Traffic, wants_proof: bool) -> bytes::Bytes {
        let (process, number) = self.inner.transport.number();
        let root = || {
            let trace = u128::from(process) << 64 | u128::from(number);
            SpanContext::new(trace.into(), number.into(), TraceFlags::default(), false, TraceState::NONE)
        };
        let current =
            Some(traces::current()).filter(|current| current.is_valid() && !seeded_bug!("context_lost_at_the_bus"));
        let trace = match carries {
            Traffic::Asks => Some(current.unwrap_or_else(root)),
            Traffic::Hints => current,
        };
        envelope::seal(message, &self.inner.identity, (process, number), budget, trace, wants_proof)
    }

    /// Listens for the asks of a pattern, over this connection and every later one. At most `capacity` asks wait; further askers get `Overloaded` at once. On return the
    /// server knows the subscription, if there is a connection.
    ///
    /// # Errors
    /// When the table does not let this member listen to the pattern, or the pattern carries hints.
    pub async fn serve(&self, pattern: &Pattern, capacity: usize) -> Result<Asks, ListenError> {
        let (queue, stats) = self.queue(pattern, capacity, Traffic::Asks)?;
        let subscription = self.inner.transport.subscribe(pattern, queue.clone()).await;
        Ok(Asks { queue, subscription: Some(subscription), stats })
    }

    /// Listens for the hints of a pattern, over this connection and every later one. At most `capacity` hints wait; further ones are lost and [reported](crate::HintEvent::Lost).
    /// On return the server knows the subscription, if there is a connection.
    ///
    /// # Errors
    /// When the table does not let this member listen to the pattern, or the pattern carries asks.
    pub async fn listen(&self, pattern: &Pattern, capacity: usize) -> Result<Hints, ListenError> {
        let (queue, stats) = self.queue(pattern, capacity, Traffic::Hints)?;
        let subscription = self.inner.transport.subscribe(pattern, queue.clone()).await;
        Ok(Hints { queue, _subscription: subscription, stats })
    }

    fn queue(
        &self,
        pattern: &Pattern,
        capacity: usize,
        carries: Traffic,
    ) -> Result<(Arc<Queue>, Arc<crate::stats::KindStats>), ListenError> {
        let (row, stats) = (pattern.row(), self.inner.stats.of(pattern.row().kind));
        if row.carries != carries {
            return Err(ListenError::OtherSort(pattern.to_string()));
        }
        if !row.may_subscribe(&self.inner.identity, pattern.as_str()) {
            stats.refused();
            return Err(ListenError::Denied(pattern.to_string()));
        }
        Ok((Arc::new(Queue::new(capacity, stats.clone())), stats))
    }

    /// Returns when the server has received all earlier messages, or soon when it does not answer; used before shutdown.
    pub async fn flush(&self) {
        self.inner.transport.flush().await;
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.transport.link().get()
    }

    /// Waits until the connection is in a wanted state, and returns that state. Cancel safe.
    pub async fn wait_for(&self, wanted: impl Fn(&State) -> bool) -> State {
        self.inner.transport.link().wait_for(wanted).await
    }

    /// Returns message counts per kind of subject.
    #[must_use]
    pub fn stats(&self) -> Vec<KindStats> {
        self.inner.stats.snapshot()
    }
}

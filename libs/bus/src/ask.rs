//! The receiving side of asks: a queue of received asks, each answered or declined.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use prost::Name;
use tokio::time::Instant;

use crate::envelope::{self, OpenedEnvelope};
use crate::error::AnswerError;
use crate::proof;
use crate::proto::bus::v1::answer::Outcome;
use crate::proto::bus::v1::{Expired, FailureCode, Stopping, WrongEpoch};
use crate::queue::{Delivery, Queue, QueueItem};
use crate::reply::ReplyChannel;
use crate::role::Identity;
use crate::stats::KindStats;
use crate::subject::Subject;
use crate::transport::Subscription;

/// Listener for the asks of a pattern. When dropped, the listener ends and answers waiting asks with `Stopping`.
#[derive(Debug)]
pub struct Asks {
    pub(crate) queue: Arc<Queue>,
    pub(crate) subscription: Option<Box<dyn Subscription>>,
    pub(crate) stats: Arc<KindStats>,
}

impl Asks {
    /// Waits for the next ask whose deadline has not passed; `None` after the listener was stopped and the queue is empty. An unreadable ask is answered `Malformed`, a late
    /// one `Expired`. Cancel safe.
    pub async fn next(&mut self) -> Option<Ask> {
        loop {
            let arrived = match self.queue.next().await {
                QueueItem::Message(arrived) => arrived,
                // The asker meets its deadline.
                QueueItem::Lost(_) => continue,
                QueueItem::Closed => return None,
            };
            match self.open(arrived) {
                Ok(ask) if ask.budget().is_zero() && !seeded_bug!("expired_is_handled") => {
                    ask.decline_now(Decline::Expired);
                }
                Ok(ask) => return Some(ask),
                Err((reply, why)) => {
                    self.stats.malformed();
                    tracing::debug!(%why, "message refused");
                    if let Some(reply) = reply {
                        let outcome = envelope::failure(FailureCode::Malformed, why);
                        // Does not wait: if the answer cannot be sent now, the asker meets its deadline.
                        let _ = reply.send(envelope::answer(outcome)).now_or_never();
                    }
                }
            }
        }
    }

    /// Stops listening. Asks already in the queue can still be taken; later askers get `NobodyThere`.
    pub fn stop(&mut self) {
        self.subscription = None;
    }

    fn open(&self, arrived: Delivery) -> Result<Ask, (Option<Box<dyn ReplyChannel>>, String)> {
        let Delivery { subject, payload, at, reply } = arrived;
        let Some(subject) = Subject::parse(&subject) else { return Err((reply, format!("no subject: {subject}"))) };
        match (envelope::open(&subject, payload), reply) {
            // No answer at all: a refusal would go to the inbox that the sender names.
            (Ok(opened), Some(reply)) if !reply.belongs_to(&opened.sender) => {
                Err((None, format!("{} wants the answer to go to somebody else", opened.sender)))
            }
            (Ok(opened), Some(reply)) => Ok(Ask { subject, opened, at, reply: Some(reply), stats: self.stats.clone() }),
            (Ok(_), None) => Err((None, "an ask that wants no answer".to_owned())),
            (Err(error), reply) => Err((reply, error.to_string())),
        }
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.subscription = None;
        for arrived in self.queue.drain() {
            if let Ok(ask) = self.open(arrived) {
                ask.decline_now(Decline::Stopping);
            }
        }
    }
}

/// One received ask. If it is dropped without an answer, the asker gets the failure `FAILURE_CODE_ABANDONED`.
#[derive(Debug)]
pub struct Ask {
    subject: Subject,
    opened: OpenedEnvelope,
    at: Instant,
    reply: Option<Box<dyn ReplyChannel>>,
    stats: Arc<KindStats>,
}

/// Why an ask is declined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decline {
    /// Too many asks are in progress; the work was not begun.
    Overloaded {
        /// Time after which another attempt may succeed.
        retry_after: Duration,
    },
    /// The receiver does not hold the unit at that epoch; the work was not begun.
    WrongEpoch {
        /// The unit's epoch, if the receiver knows it.
        current: Option<Revision>,
    },
    /// The asker's deadline has passed; the work was not begun.
    Expired,
    /// The receiving process is shutting down; the work was not begun.
    Stopping,
    /// The body cannot be decoded; the work was not begun.
    Malformed(String),
    /// The receiver does not know the method; the work was not begun.
    UnknownMethod,
    /// The work was begun and failed.
    Failed(String),
}

impl Ask {
    /// Returns the subject of the ask.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the asker as the envelope names it; where the [subject names the sender](Subject::sender), the server has verified the name.
    #[must_use]
    pub const fn sender(&self) -> &Identity {
        &self.opened.sender
    }

    /// Returns what is left of the asker's budget: the budget at sending, less the time in this process. The time on the network is unknown, so the asker may have a little
    /// less.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.opened.budget.saturating_sub(if seeded_bug!("budget_ignores_queue") {
            Duration::ZERO
        } else {
            self.at.elapsed()
        })
    }

    /// Returns the context of the asker's span, or, of an ask outside every span, an unsampled one that names no span. `None` when the ask has none.
    #[must_use]
    pub fn trace(&self) -> Option<&SpanContext> {
        self.opened.trace.as_deref()
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// [`Decline::Malformed`], for the caller to answer with, when the body is not an `M`.
    pub fn body<M: Name + Default>(&self) -> Result<M, Decline> {
        envelope::body(&self.opened.type_name, self.opened.body.clone())
            .map_err(|error| Decline::Malformed(error.to_string()))
    }

    /// Answers the ask.
    ///
    /// # Errors
    /// When the answer certainly does not reach the asker.
    pub async fn answer<A: Name>(mut self, answer: &A) -> Result<(), AnswerError> {
        let Some(reply) = self.reply.take() else { return Err(AnswerError::Gone) };
        let (done, limit) = (envelope::done(answer), reply.max_payload());
        let payload = match (&self.opened.proof_of, reply.seed()) {
            (Some(asked), Some(seed)) => {
                let proof = proof::sign(seed, &self.subject, asked, &done);
                envelope::proven(done, proof)
            }
            _ => envelope::answer(Outcome::Done(done)),
        };
        self.stats.answered(self.at.elapsed());
        if payload.len() <= limit {
            return self.send(&*reply, payload).await;
        }
        let error = AnswerError::TooLarge { bytes: payload.len(), limit };
        let outcome = envelope::failure(FailureCode::AnswerTooLarge, error.to_string());
        self.send(&*reply, envelope::answer(outcome)).await?;
        Err(error)
    }

    /// Declines the ask.
    ///
    /// # Errors
    /// When the answer certainly does not reach the asker.
    pub async fn decline(mut self, why: Decline) -> Result<(), AnswerError> {
        let Some(reply) = self.reply.take() else { return Err(AnswerError::Gone) };
        let outcome = why.outcome();
        self.stats.declined(&outcome);
        self.send(&*reply, envelope::answer(outcome)).await
    }

    /// Declines the ask without waiting. If the answer cannot be sent now, the asker meets its deadline.
    pub fn decline_now(self, why: Decline) {
        let _ = self.decline(why).now_or_never();
    }

    /// Sends the answer; waits for room on the connection at most until the asker's deadline.
    async fn send(&self, reply: &dyn ReplyChannel, payload: bytes::Bytes) -> Result<(), AnswerError> {
        match tokio::time::timeout(self.budget(), reply.send(payload)).await {
            Ok(sent) => sent,
            Err(_) => Err(AnswerError::Gone),
        }
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let outcome = envelope::failure(FailureCode::Abandoned, "the handler ended without an answer");
            self.stats.declined(&outcome);
            // Does not wait: if the answer cannot be sent now, the asker meets its deadline.
            let _ = reply.send(envelope::answer(outcome)).now_or_never();
        }
    }
}

impl Decline {
    fn outcome(self) -> Outcome {
        match self {
            Self::Overloaded { retry_after } => envelope::overloaded(retry_after),
            Self::WrongEpoch { current } => {
                Outcome::WrongEpoch(WrongEpoch { current: current.map_or(0, Revision::get) })
            }
            Self::Expired => Outcome::Expired(Expired {}),
            Self::Stopping => Outcome::Stopping(Stopping {}),
            Self::Malformed(why) => envelope::failure(FailureCode::Malformed, why),
            Self::UnknownMethod => envelope::failure(FailureCode::UnknownMethod, "unknown method"),
            Self::Failed(why) => envelope::failure(FailureCode::Failed, why),
        }
    }
}

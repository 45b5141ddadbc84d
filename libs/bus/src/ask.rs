//! Asks that came: taken in their order, answered or declined.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use oarlock_meta::Revision;
use oarlock_seeded_bug::seeded_bug;
use prost::Name;
use tokio::time::Instant;

use crate::envelope::{self, Opened};
use crate::error::AnswerError;
use crate::proof;
use crate::proto::bus::v1::answer::Outcome;
use crate::proto::bus::v1::{Expired, FailureCode, Stopping, WrongEpoch};
use crate::queue::{Arrived, Next, Queue};
use crate::role::Identity;
use crate::stats::KindStats;
use crate::subject::Subject;
use crate::trace::TraceContext;
use crate::transport::{ReplyTo, Subscription};

/// Hears the asks of a pattern. Dropped, it hears nothing more, and answers what waits with `Stopping`.
#[derive(Debug)]
pub struct Asks {
    pub(crate) queue: Arc<Queue>,
    pub(crate) subscription: Option<Box<dyn Subscription>>,
    pub(crate) stats: Arc<KindStats>,
}

impl Asks {
    /// The next ask whose time is not over; `None` when nothing more comes. What cannot be read is answered `Malformed`, what came too late `Expired`.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<Ask> {
        loop {
            let arrived = match self.queue.next().await {
                Next::Message(arrived) => arrived,
                // whose asker meets its deadline
                Next::Lost(_) => continue,
                Next::Closed => return None,
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
                        // never waits: whoever cannot be told meets its deadline
                        let _ = reply.send(envelope::answer(outcome)).now_or_never();
                    }
                }
            }
        }
    }

    /// Hears nothing more from now on; what waits can still be taken, and who asks later is told `NobodyThere`.
    pub fn stop(&mut self) {
        self.subscription = None;
    }

    fn open(&self, arrived: Arrived) -> Result<Ask, (Option<ReplyTo>, String)> {
        let Arrived { subject, payload, at, reply } = arrived;
        let Some(subject) = Subject::parse(&subject) else { return Err((reply, format!("no subject: {subject}"))) };
        match (envelope::open(&subject, payload), reply) {
            // not even refused: the refusal would go to whom the sender names
            (Ok(opened), Some(reply)) if !reply.belongs_to(&opened.sender) => {
                Err((None, format!("{} wants the answer to go to somebody else", opened.sender)))
            }
            (Ok(opened), Some(reply)) => Ok(Ask { subject, opened, at, reply: Some(reply), stats: self.stats.clone() }),
            (Ok(_), None) => Err((None, "an ask that wants no answer".to_owned())),
            (Err(why), reply) => Err((reply, why)),
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

/// A question. Dropped without an answer, its asker is told that it was abandoned.
#[derive(Debug)]
pub struct Ask {
    subject: Subject,
    opened: Opened,
    at: Instant,
    reply: Option<ReplyTo>,
    stats: Arc<KindStats>,
}

/// Why an ask is not handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decline {
    /// Too much is under way; not begun.
    Overloaded {
        /// After which time another try may find room.
        retry_after: Duration,
    },
    /// The unit is not held here at that epoch; not begun.
    WrongEpoch {
        /// The unit's epoch, if it is known here.
        current: Option<Revision>,
    },
    /// The asker has given up by now; not begun.
    Expired,
    /// This process ends; not begun.
    Stopping,
    /// The body cannot be read; not begun.
    Malformed(String),
    /// Nobody here answers that method; not begun.
    UnknownMethod,
    /// It was begun and failed.
    Failed(String),
}

impl Ask {
    /// Where it was sent to.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Who asks, by its own word; where the [subject names the sender](Subject::sender), by the server's.
    #[must_use]
    pub const fn sender(&self) -> &Identity {
        &self.opened.sender
    }

    /// What is left of the asker's time: what it had when it sent, less the time that the ask waits here. The way through the network is not known,
    /// so the asker may have a little less.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.opened.budget.saturating_sub(if seeded_bug!("budget_ignores_queue") {
            Duration::ZERO
        } else {
            self.at.elapsed()
        })
    }

    /// The trace that it belongs to.
    #[must_use]
    pub const fn trace(&self) -> Option<TraceContext> {
        self.opened.trace
    }

    /// Its body.
    ///
    /// # Errors
    /// [`Decline::Malformed`], which is to be answered, where it is no `M`.
    pub fn body<M: Name + Default>(&self) -> Result<M, Decline> {
        envelope::body(&self.opened.type_name, self.opened.body.clone()).map_err(Decline::Malformed)
    }

    /// Answers it.
    ///
    /// # Errors
    /// Where the answer certainly does not reach the asker.
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
            return self.send(&reply, payload).await;
        }
        let error = AnswerError::TooLarge { bytes: payload.len(), limit };
        let outcome = envelope::failure(FailureCode::AnswerTooLarge, error.to_string());
        self.send(&reply, envelope::answer(outcome)).await?;
        Err(error)
    }

    /// Declines it.
    ///
    /// # Errors
    /// Where the answer certainly does not reach the asker.
    pub async fn decline(mut self, why: Decline) -> Result<(), AnswerError> {
        let Some(reply) = self.reply.take() else { return Err(AnswerError::Gone) };
        let outcome = why.outcome();
        self.stats.declined(&outcome);
        self.send(&reply, envelope::answer(outcome)).await
    }

    /// Declines it without waiting: whoever cannot be told meets its deadline.
    pub fn decline_now(self, why: Decline) {
        let _ = self.decline(why).now_or_never();
    }

    /// Waits for the connection no longer than the asker waits for the answer.
    async fn send(&self, reply: &ReplyTo, payload: bytes::Bytes) -> Result<(), AnswerError> {
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
            // never waits: whoever cannot be told meets its deadline
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

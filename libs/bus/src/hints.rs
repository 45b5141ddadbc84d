//! The receiving side of hints: received hints and reports of lost ones.

use std::sync::Arc;

use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use prost::Name;

use crate::envelope::{self, OpenedEnvelope};
use crate::error::EnvelopeError;
use crate::queue::{Queue, QueueItem};
use crate::role::Identity;
use crate::stats::KindStats;
use crate::subject::Subject;
use crate::transport::Subscription;

/// Listener for the hints of a pattern, until dropped.
#[derive(Debug)]
pub struct Hints {
    pub(crate) queue: Arc<Queue>,
    pub(crate) _subscription: Box<dyn Subscription>,
    pub(crate) stats: Arc<KindStats>,
}

/// One item of a hint listener.
#[derive(Debug)]
pub enum HintEvent {
    /// A received hint.
    Hint(Hint),
    /// Hints were lost: this many for lack of room in the queue, or an unknown number, as around every new connection. The receiver must read the current state from its
    /// source.
    Lost(Option<u64>),
}

/// A lossy message.
#[derive(Debug)]
pub struct Hint {
    subject: Subject,
    opened: OpenedEnvelope,
}

impl Hints {
    /// Waits for the next item. Cancel safe.
    pub async fn next(&mut self) -> HintEvent {
        loop {
            match self.queue.next().await {
                QueueItem::Message(arrived) => {
                    let opened = Subject::parse(&arrived.subject)
                        .ok_or_else(|| EnvelopeError::Subject(arrived.subject.to_string()))
                        .and_then(|subject| Ok(Hint { opened: envelope::open(&subject, arrived.payload)?, subject }));
                    match opened {
                        Ok(hint) => return HintEvent::Hint(hint),
                        Err(why) => {
                            self.stats.malformed();
                            tracing::debug!(%why, "hint refused");
                        }
                    }
                }
                QueueItem::Lost(count) => return HintEvent::Lost((count > 0).then_some(count)),
                // Only dropping the listener closes the queue.
                QueueItem::Closed => std::future::pending::<()>().await,
            }
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        drop(self.queue.drain());
    }
}

impl Hint {
    /// Returns the subject of the hint.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the sender as the envelope names it; where the [subject names the sender](Subject::sender), the server has verified the name.
    #[must_use]
    pub const fn sender(&self) -> &Identity {
        &self.opened.sender
    }

    /// Returns the context of the span that was running when the hint was sent; `None` outside every span. Work that a hint begins is linked with this span and never its child: the sender does not wait for the
    /// work, and several hints may begin the same work. Whether the work is sampled follows from the work alone.
    #[must_use]
    pub fn trace(&self) -> Option<&SpanContext> {
        self.opened.trace.as_deref().filter(|_| !seeded_bug!("hints_lose_their_context"))
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// When the body is not an `M`.
    pub fn body<M: Name + Default>(&self) -> Result<M, EnvelopeError> {
        envelope::body(&self.opened.type_name, self.opened.body.clone())
    }
}

//! Hints that came, and the knowledge that some did not.

use std::sync::Arc;

use prost::Name;

use crate::envelope::{self, Opened};
use crate::queue::{Next, Queue};
use crate::role::Identity;
use crate::stats::KindStats;
use crate::subject::Subject;
use crate::transport::Subscription;

/// Hears the hints of a pattern, until it is dropped.
#[derive(Debug)]
pub struct Hints {
    pub(crate) queue: Arc<Queue>,
    pub(crate) _subscription: Box<dyn Subscription>,
    pub(crate) stats: Arc<KindStats>,
}

/// What is heard.
#[derive(Debug)]
pub enum Heard {
    /// A hint.
    Hint(Hint),
    /// Hints were not delivered: so many for lack of room, or an unknown number, as around every new connection. What they would have told is to be
    /// looked up where it stands.
    Lost(Option<u64>),
}

/// A message that nobody relies on.
#[derive(Debug)]
pub struct Hint {
    subject: Subject,
    opened: Opened,
}

impl Hints {
    /// What comes next. Cancel safe.
    pub async fn next(&mut self) -> Heard {
        loop {
            match self.queue.next().await {
                Next::Message(arrived) => {
                    let opened = Subject::parse(&arrived.subject)
                        .ok_or_else(|| format!("no subject: {}", arrived.subject))
                        .and_then(|subject| Ok(Hint { opened: envelope::open(&subject, arrived.payload)?, subject }));
                    match opened {
                        Ok(hint) => return Heard::Hint(hint),
                        Err(why) => {
                            self.stats.malformed();
                            tracing::debug!(%why, "hint refused");
                        }
                    }
                }
                Next::Lost(count) => return Heard::Lost((count > 0).then_some(count)),
                // closed by its own end only
                Next::Closed => std::future::pending::<()>().await,
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
    /// Where it was sent to.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Who sent it, by its own word; where the [subject names the sender](Subject::sender), by the server's.
    #[must_use]
    pub const fn sender(&self) -> &Identity {
        &self.opened.sender
    }

    /// Its body.
    ///
    /// # Errors
    /// Why it is no `M`.
    pub fn body<M: Name + Default>(&self) -> Result<M, String> {
        envelope::body(&self.opened.type_name, self.opened.body.clone())
    }
}

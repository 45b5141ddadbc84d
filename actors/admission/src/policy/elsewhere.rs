//! Judging in other processes: an API server asks whoever of the role `admission` is on the bus, and judges itself whenever it gets no answer. So
//! who is asked makes no difference to what is admitted, only to who has the work.
//!
//! An answer counts only with a signature made with the key of the role `admission` ([`Bus::ask_proven`]). nats-server checks permissions for its own clients
//! only: what another server sends over a route passes unchecked, and a forged answer "nobody objects" would disable every policy. Questions about secrets
//! are never sent, because every server that carries a question can read it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use oarlock_bus::proto::admission::v1::policy_answer::Said;
use oarlock_bus::proto::admission::v1::{PolicyAnswer, PolicyQuestion};
use oarlock_bus::{AskError, Bus, Role, Subject};
use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use parking_lot::Mutex;

use super::compiled::{Policy, PolicyId};
use super::question::{Answer, Question};

/// The service, and its method.
pub(super) const POLICIES: &str = "policies";
/// How long an answer may take; then the request is judged here.
const BUDGET: Duration = Duration::from_millis(500);
/// After nobody answered nobody is asked for so long.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks other processes.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// When others may be asked again.
    pause: Mutex<Option<Instant>>,
    /// The last question was answered.
    answered: AtomicBool,
    /// Whether the log has a warning about an answer without proof since the last proven answer.
    warned: AtomicBool,
}

impl Elsewhere {
    /// What another process makes of a question about `policies`; `None` when it has to be judged here.
    pub async fn judge(
        &self,
        bus: &Bus,
        question: &Question,
        policies: &HashMap<PolicyId, Arc<Policy>>,
    ) -> Option<Answer> {
        let paused = self.pause.lock().is_some_and(|until| !until.passed());
        let secret = question.is_secret() && !seeded_bug!("secrets_go_to_the_judge");
        if paused || secret || policies.values().any(|policy| policy.asks_rights()) {
            return None;
        }
        match self.ask(bus, question, policies).await {
            Ok(Said::Outcome(outcome)) => match serde_json::from_slice(&outcome) {
                Ok(answer) => {
                    self.warned.store(false, Ordering::Relaxed);
                    self.note(true, "answered");
                    return Some(answer);
                }
                Err(error) => self.note(false, &error),
            },
            Ok(Said::Rights(_)) => policies.values().for_each(|policy| policy.note_asks_rights()),
            Ok(Said::Unknown(_)) => self.note(false, "policies that were sent are not known"),
            // Either somebody answers who has no right to, or the role's key is not configured here. Both are worth a line in the log.
            Err(error @ AskError::Unproven(_)) => {
                *self.pause.lock() = Some(clock::after(PAUSE));
                self.answered.store(false, Ordering::Relaxed);
                if !self.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(reason = %error, "policies are judged here");
                }
            }
            // These tell of this question, or of this moment, and nothing of the next.
            Err(AskError::TooLarge { .. } | AskError::Overloaded { .. }) => {}
            Err(error) => {
                *self.pause.lock() = Some(clock::after(PAUSE));
                self.note(false, &error);
            }
        }
        None
    }

    async fn ask(
        &self,
        bus: &Bus,
        question: &Question,
        policies: &HashMap<PolicyId, Arc<Policy>>,
    ) -> Result<Said, AskError> {
        let subject =
            Subject::service(Role::Admission, POLICIES).map_err(|error| AskError::Denied(error.to_string()))?;
        let review = serde_json::to_vec(question).map_err(|error| AskError::Garbled(error.to_string()))?;
        let sources = policies.values().map(|policy| policy.source());
        let (digests, bodies): (Vec<Bytes>, Vec<Bytes>) = sources.cloned().unzip();
        let mut wire = PolicyQuestion { review: review.into(), digests, policies: Vec::new() };
        let said = |answer: PolicyAnswer| answer.said.ok_or_else(|| AskError::Garbled("an empty answer".to_owned()));
        match said(bus.ask_proven(&subject, &wire, BUDGET).await?)? {
            Said::Unknown(_) => {
                wire.policies = bodies;
                said(bus.ask_proven(&subject, &wire, BUDGET).await?)
            }
            other => Ok(other),
        }
    }

    /// Says in the log when who judges changes.
    fn note(&self, answered: bool, why: &(impl std::fmt::Display + ?Sized)) {
        if self.answered.swap(answered, Ordering::Relaxed) != answered {
            tracing::info!(reason = %why, "policies are judged {}", if answered { "elsewhere" } else { "here" });
        }
    }
}

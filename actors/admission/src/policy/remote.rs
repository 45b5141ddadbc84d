//! Evaluation of policies in other processes: an API server asks a process of the role `admission` over the bus, and evaluates the policies itself
//! when no answer arrives. The choice of process affects only the load, never the result.
//!
//! An answer counts only with a signature made with the key of the role `admission` ([`Bus::ask_proven`]). nats-server checks permissions of its own
//! clients only: a message that another server sends over a route passes unchecked, and a forged answer without denials would disable every policy.
//! Questions about secrets are never sent, because every server that carries a question can read it.

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

/// The name of the service and of its method.
pub(super) const POLICIES: &str = "policies";
/// How long to wait for an answer before the request is evaluated in this process.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long no question is sent after one without an answer.
const PAUSE_AFTER_SILENCE: Duration = Duration::from_millis(500);

/// Evaluates policies in other processes.
#[derive(Debug, Default)]
pub struct RemoteEvaluator {
    /// The time before which no question is sent.
    pause: Mutex<Option<Instant>>,
    /// Whether the last question was answered.
    answered: AtomicBool,
    /// Whether a warning about an answer without proof was logged since the last proven answer.
    warned: AtomicBool,
}

impl RemoteEvaluator {
    /// Evaluates `question` about `policies` in another process; `None` when this process has to evaluate it.
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
            // Either a process without permission answers, or the role's key is not configured here. Both deserve a log line.
            Err(error @ AskError::Unproven(_)) => {
                *self.pause.lock() = Some(clock::after(PAUSE_AFTER_SILENCE));
                self.answered.store(false, Ordering::Relaxed);
                if !self.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(reason = %error, "policies are judged here");
                }
            }
            // These errors concern this question only, so the next one may be sent.
            Err(AskError::TooLarge { .. } | AskError::Overloaded { .. }) => {}
            Err(error) => {
                *self.pause.lock() = Some(clock::after(PAUSE_AFTER_SILENCE));
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
        match said(bus.ask_proven(&subject, &wire, ANSWER_TIMEOUT).await?)? {
            Said::Unknown(_) => {
                wire.policies = bodies;
                said(bus.ask_proven(&subject, &wire, ANSWER_TIMEOUT).await?)
            }
            other => Ok(other),
        }
    }

    /// Logs a change between evaluation here and in other processes.
    fn note(&self, answered: bool, why: &(impl std::fmt::Display + ?Sized)) {
        if self.answered.swap(answered, Ordering::Relaxed) != answered {
            tracing::info!(reason = %why, "policies are judged {}", if answered { "elsewhere" } else { "here" });
        }
    }
}

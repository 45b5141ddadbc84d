//! What an operator sees of the actors: `/debug/actors`, `kubectl get actors`.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock;
use crate::kind::Phase;
use crate::slot::{Life, Slot};

/// One actor at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorStatus {
    /// The row's name: "store.committer".
    pub kind: String,
    /// The actor's key among those of its kind.
    pub key: String,
    /// The host the actor lives on.
    pub host: String,
    /// When it is stopped at shutdown.
    pub phase: Phase,
    /// Where it is in its life.
    pub life: Life,
    /// How many incarnations there were; 1 is the first.
    pub incarnation: u32,
    /// How many of them were restarts after a failure.
    pub restarts: u32,
    /// Messages handled by all incarnations.
    pub handled: u64,
    /// Messages that wait.
    pub queue_depth: usize,
    /// The most that ever waited.
    pub queue_peak: usize,
    /// The most that may wait.
    pub mailbox: usize,
    /// For how long the oldest of them has waited, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oldest_message_ms: Option<u64>,
    /// Why the last incarnation that failed did so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_error: Option<String>,
    /// What the actor shows of its state.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub state: Value,
}

impl ActorStatus {
    pub(crate) fn of(slot: &Slot, host: &str) -> Self {
        let incarnation = slot.incarnations.load(Ordering::Relaxed);
        let age = |at: clock::Instant| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self {
            kind: slot.kind.name.to_owned(),
            key: slot.key.to_string(),
            host: host.to_owned(),
            phase: slot.kind.phase,
            life: slot.life(),
            incarnation,
            restarts: incarnation.saturating_sub(1),
            handled: slot.handled.load(Ordering::Relaxed),
            queue_depth: slot.mailbox.depth(),
            queue_peak: slot.mailbox.peak(),
            mailbox: slot.mailbox.bound,
            oldest_message_ms: slot.mailbox.oldest().map(age),
            last_error: slot.last_error.lock().clone(),
            state: slot.observed.lock().as_deref().cloned().unwrap_or(Value::Null),
        }
    }
}

//! The status of each actor, as `/debug/actors` and `kubectl get actors` show it.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock;
use crate::kind::Phase;
use crate::slot::{Life, Slot};

/// The status of one actor at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorStatus {
    /// The kind's name: "store.committer".
    pub kind: String,
    /// The actor's key, unique within its kind.
    pub key: String,
    /// The host that runs the actor.
    pub host: String,
    /// The shutdown phase in which the actor is stopped.
    pub phase: Phase,
    /// The state of the actor's life cycle.
    pub life: Life,
    /// The number of the latest incarnation; 1 is the first.
    pub incarnation: u32,
    /// How many incarnations were restarts after a failure.
    pub restarts: u32,
    /// How many messages all incarnations have handled.
    pub handled: u64,
    /// How many messages are queued.
    pub queue_depth: usize,
    /// The largest number of messages that were ever queued.
    pub queue_peak: usize,
    /// The bound of the mailbox, in messages.
    pub mailbox: usize,
    /// For how long the oldest queued message has waited, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oldest_message_ms: Option<u64>,
    /// The error of the last incarnation that failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_error: Option<String>,
    /// The state that the actor last published.
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

//! What an operator sees of a scheduler.

use serde::Serialize;

use crate::engine::Engine;

/// The published status.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Seen {
    /// Nodes known.
    nodes: usize,
    /// Pods that are ready to be tried.
    active: usize,
    /// Pods waiting out their back-off.
    backing_off: usize,
    /// Pods waiting for an event.
    waiting: usize,
    /// Pods held by scheduling gates.
    gated: usize,
    /// Bindings under way.
    binding: usize,
    /// Bindings written.
    pub(super) bound: u64,
    /// Attempts that found no node.
    pub(super) unschedulable: u64,
    /// Attempts that failed otherwise.
    pub(super) failed: u64,
    /// Proposals the arbiter accepted.
    accepted: u64,
    /// Proposals the arbiter refused.
    refused: u64,
    /// The last refusal that cost an attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    last_refusal: String,
}

impl Seen {
    /// Takes the engine's figures over.
    pub(super) fn look(&mut self, engine: &Engine, binding: usize) {
        let waiting = engine.queue.waiting();
        self.nodes = engine.cluster.nodes.count;
        self.active = waiting.active;
        self.backing_off = waiting.backoff;
        self.waiting = waiting.unschedulable;
        self.gated = waiting.gated;
        self.binding = binding;
        (self.accepted, self.refused) = engine.verdicts();
        self.last_refusal = engine.last_refusal.as_ref().map(ToString::to_string).unwrap_or_default();
    }
}

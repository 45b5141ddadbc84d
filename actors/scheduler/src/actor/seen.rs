//! What an operator sees of a scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_runtime::Instant;
use serde::Serialize;

use crate::engine::Engine;

/// The published status.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchedulerStatus {
    /// Nodes known.
    nodes: usize,
    /// Pods that are ready to be tried.
    pub(super) active: usize,
    /// Pods waiting out their back-off.
    pub(super) backing_off: usize,
    /// Pods waiting for an event.
    pub(super) waiting: usize,
    /// Pods held by scheduling gates.
    pub(super) gated: usize,
    /// Bindings under way.
    binding: usize,
    /// Proposals that are not settled: on their way to the arbiter, or to be made again.
    proposing: usize,
    /// Shards whose pods are looked after here.
    shards: Vec<usize>,
    /// Whether this process decides.
    pub(super) decides: bool,
    /// Bindings written.
    pub(super) bound: u64,
    /// Attempts that found no node.
    pub(super) unschedulable: u64,
    /// Attempts that failed otherwise.
    pub(super) failed: u64,
    /// Proposals made to the arbiter of another process, and what became of them.
    pub(super) proposals: Proposing,
    /// Proposals the arbiter here accepted, this process's own included.
    accepted: u64,
    /// Pods that fit nowhere and were looked at for preemption (upstream: `scheduler_preemption_attempts_total`).
    pub(super) preemption_attempts: u64,
    /// Preemptions the arbiter here allowed, this process's own included.
    pub(super) preemptions: u64,
    /// Pods that it told to leave for them (upstream: `scheduler_preemption_victims`).
    pub(super) preemption_victims: u64,
    /// Proposals of both kinds the arbiter here refused, by constraint.
    refused: BTreeMap<&'static str, u64>,
    /// Of all proposals that it looked at, the part that it refused.
    conflict_rate: f64,
    /// What it costs to find a node for a pod here, in microseconds on average; at the arbiter with its own check.
    micros_per_decision: f64,
    /// What it costs the arbiter here to check what another proposes, in microseconds on average.
    micros_per_judgement: f64,
    #[serde(skip)]
    pub(super) decided: Spent,
    #[serde(skip)]
    pub(super) judged: Spent,
    /// The last refusal that cost an attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    last_refusal: String,
}

/// What something costs that is done again and again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    time: Duration,
    count: u32,
}

/// What became of proposals to another process.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proposing {
    /// Sent.
    pub(super) sent: u64,
    /// Bound.
    pub(super) bound: u64,
    /// Nominated, and their victims told to leave.
    pub(super) nominated: u64,
    /// Refused, by constraint.
    pub(super) refused: BTreeMap<String, u64>,
    /// Accepted, and then not bound.
    pub(super) failed: u64,
    /// Not delivered, or to somebody who does not decide any more.
    pub(super) undelivered: u64,
    /// Perhaps carried out, so looked for before they are made again.
    pub(super) unknown: u64,
}

impl Spent {
    /// Once more, since then.
    pub(super) fn since(&mut self, began: Instant) {
        self.time += began.elapsed();
        self.count = self.count.saturating_add(1);
    }

    fn micros(self) -> f64 {
        self.time.as_secs_f64() * 1e6 / f64::from(self.count.max(1))
    }
}

impl SchedulerStatus {
    /// Takes the engine's figures over.
    pub(super) fn look(&mut self, engine: &Engine, binding: usize, proposing: usize, shards: Vec<usize>) {
        let waiting = engine.queue.waiting();
        self.nodes = engine.cluster.nodes.count;
        self.active = waiting.active;
        self.backing_off = waiting.backoff;
        self.waiting = waiting.unschedulable;
        self.gated = waiting.gated;
        (self.binding, self.proposing, self.shards) = (binding, proposing, shards);
        (self.preemption_attempts, self.preemption_victims) = (engine.attempts, engine.victims);
        self.preemptions = engine.preemptions();
        let (accepted, refused) = engine.verdicts();
        let refusals: u64 = refused.values().sum();
        (self.accepted, self.refused) = (accepted, refused.clone());
        self.conflict_rate = refusals as f64 / (accepted + refusals).max(1) as f64;
        (self.micros_per_decision, self.micros_per_judgement) = (self.decided.micros(), self.judged.micros());
        self.last_refusal = engine.last_refusal.as_ref().map(ToString::to_string).unwrap_or_default();
    }
}

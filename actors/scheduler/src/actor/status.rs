//! The status that a scheduler publishes for operators.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_runtime::Instant;
use serde::Serialize;

use crate::engine::Engine;

/// The published status of one scheduler.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchedulerStatus {
    /// Number of known nodes.
    nodes: usize,
    /// Pods in the active queue.
    pub(super) active: usize,
    /// Pods in back-off.
    pub(super) backing_off: usize,
    /// Unschedulable pods, which wait for an event.
    pub(super) waiting: usize,
    /// Pods held by scheduling gates.
    pub(super) gated: usize,
    /// Bindings in progress.
    binding: usize,
    /// Proposals without a final result: sent to the arbiter, or parked for another attempt.
    proposing: usize,
    /// Shards whose pods this process queues.
    shards: Vec<usize>,
    /// Whether this process is the arbiter.
    pub(super) decides: bool,
    /// Bindings written.
    pub(super) bound: u64,
    /// Attempts that found no node.
    pub(super) unschedulable: u64,
    /// Attempts that failed for another reason.
    pub(super) failed: u64,
    /// Proposals sent to the arbiter of another process, by result.
    pub(super) proposals: Proposing,
    /// Proposals that this process's arbiter accepted, its own included.
    pub(super) accepted: u64,
    /// Pods that fit on no node and for which preemption was tried (upstream: `scheduler_preemption_attempts_total`).
    pub(super) preemption_attempts: u64,
    /// Preemptions that this process's arbiter allowed, its own included.
    pub(super) preemptions: u64,
    /// Victims of those preemptions (upstream: `scheduler_preemption_victims`).
    pub(super) preemption_victims: u64,
    /// Bindings and preemptions that this process's arbiter refused, by constraint.
    pub(super) refused: BTreeMap<&'static str, u64>,
    /// Refused proposals divided by all proposals that this process's arbiter judged.
    conflict_rate: f64,
    /// Mean time to find a node for a pod, in microseconds; at the arbiter the arbiter's check is included.
    micros_per_decision: f64,
    /// Mean time in which the arbiter checks another process's proposal, in microseconds.
    micros_per_judgement: f64,
    #[serde(skip)]
    pub(super) decided: Spent,
    #[serde(skip)]
    pub(super) judged: Spent,
    /// The last refusal that failed a scheduling attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    last_refusal: String,
}

/// Total time and number of runs of a repeated operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    time: Duration,
    count: u32,
}

/// Numbers of proposals sent to another process, by result.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proposing {
    /// Proposals sent.
    pub(super) sent: u64,
    /// Proposals whose pods were bound.
    pub(super) bound: u64,
    /// Proposals whose pods were nominated and whose victims were evicted.
    pub(super) nominated: u64,
    /// Proposals refused, by constraint.
    pub(super) refused: BTreeMap<String, u64>,
    /// Proposals accepted whose writes then failed.
    pub(super) failed: u64,
    /// Proposals not delivered, or received by a process that was no longer the arbiter.
    pub(super) undelivered: u64,
    /// Proposals that may have been carried out; the cache is checked before another attempt.
    pub(super) unknown: u64,
}

impl Spent {
    /// Records one run that started at `began`.
    pub(super) fn since(&mut self, began: Instant) {
        self.time += began.elapsed();
        self.count = self.count.saturating_add(1);
    }

    fn micros(self) -> f64 {
        self.time.as_secs_f64() * 1e6 / f64::from(self.count.max(1))
    }
}

impl SchedulerStatus {
    /// Copies the current figures of the engine and the loop into the status.
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
        let (accepted, refused) = engine.proposal_counts();
        let refusals: u64 = refused.values().sum();
        (self.accepted, self.refused) = (accepted, refused.clone());
        self.conflict_rate = refusals as f64 / (accepted + refusals).max(1) as f64;
        (self.micros_per_decision, self.micros_per_judgement) = (self.decided.micros(), self.judged.micros());
        self.last_refusal = engine.last_refusal.as_ref().map(ToString::to_string).unwrap_or_default();
    }
}

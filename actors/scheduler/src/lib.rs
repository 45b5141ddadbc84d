//! The scheduler: assigns a node to every pending pod that names this scheduler, by kube-scheduler's rules but with a columnar engine.
//!
//! - [`cluster`]: the cluster's state: nodes in columns, pods on nodes, counts per topology domain; each event changes the state in place.
//! - [`framework`], [`plugin`], [`post_filter`]: upstream's extension points. [`plugins`], [`table`]: one file and one row per plugin.
//! - [`class`], [`shard`]: pods with equal specs share cached filter results and scores; a shard *proposes* a node for a pod.
//! - [`arbiter`]: serially rechecks every hard constraint of a proposal and *decides*.
//! - [`preempt`]: the victims that would have to be evicted for a pod that fits on no node; the arbiter checks them again.
//! - [`queue`]: active, backing-off, unschedulable and gated pods.
//! - [`engine`]: all of the above without I/O: events in, decisions out.
//! - [`project`], [`actor`]: the actor around the engine: reads informers, writes bindings, Events and conditions.
//! - [`start`]: starts the actor with the plugins of the table.
//!
//! Invariant: whenever the arbiter accepts a placement, no hard constraint is violated among the pods that this scheduler has placed.

mod actor;
mod arbiter;
mod bits;
mod class;
mod cluster;
mod column;
mod engine;
mod error;
mod event;
mod filters;
mod framework;
mod intern;
mod labels;
mod map;
mod model;
mod plugin;
mod plugins;
mod post_filter;
mod preempt;
mod project;
mod queue;
mod shard;
mod slab;
mod start;
mod table;
mod texts;

use oarlock_mesh::{Scope, Unit};

pub use actor::{Config, KINDS, PREEMPTION_DEADLINE, SCHEDULER};
pub use error::Error;
pub use start::Scheduler;

/// Returns every unit of scheduling work that the placement distributes over processes: the shards and the arbiter.
#[must_use]
pub fn units() -> Vec<Unit> {
    shards().units().iter().cloned().chain([arbiter_unit()]).collect()
}

/// Returns the arbiter's unit. Its holder decides on bindings.
fn arbiter_unit() -> Unit {
    Unit::named("arbiter")
}

/// Returns the scope of the shard units. A shard's holder searches nodes for the shard's pods.
fn shards() -> Scope {
    Scope::parts("shards")
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

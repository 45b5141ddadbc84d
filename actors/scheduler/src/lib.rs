//! The scheduler: gives every pod that asks for it a node, as kube-scheduler would, with another engine.
//!
//! - [`cluster`]: nodes in columns, pods on nodes, counts per topology domain; changed in place by events.
//! - [`framework`], [`table`], [`plugins`]: upstream's extension points, one row and one file per plugin.
//! - [`class`], [`shard`]: pods with equal specs share what is known about nodes; a shard *proposes*.
//! - [`arbiter`]: the one serial place that rechecks every hard constraint and *decides*.
//! - [`preempt`]: who would have to leave for a pod that fits nowhere; the arbiter allows it.
//! - [`queue`]: active, backing-off, unschedulable and gated pods.
//! - [`engine`]: all of it together, pure: events in, decisions out.
//! - [`project`], [`actor`]: the shell: informers in, bindings, events and conditions out.
//!
//! Invariant: among pods placed here, no hard constraint is violated at the moment the arbiter accepts.

mod actor;
mod arbiter;
mod bits;
mod class;
mod cluster;
mod column;
mod engine;
mod event;
mod filters;
mod framework;
mod intern;
mod labels;
mod map;
mod message;
mod model;
mod plugins;
mod preempt;
mod project;
mod queue;
mod shard;
mod slab;
mod table;

use oarlock_mesh::{Scope, Unit};

pub use actor::{Config, Error, KINDS, SCHEDULER, Scheduler};

/// Every unit of scheduling.
#[must_use]
pub fn units() -> Vec<Unit> {
    shards().units().iter().cloned().chain([arbiter_unit()]).collect()
}

/// Whoever holds it decides on bindings.
fn arbiter_unit() -> Unit {
    Unit::named("arbiter")
}

/// Whoever holds one looks for nodes for its pods.
fn shards() -> Scope {
    Scope::parts("shards")
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

//! Who works for which unit, where several processes share the crew's work.
//!
//! - [`start()`] makes this process a [`member`]: it says so by a Lease in `kube-system`, renewed as long as it lives, marked when it leaves.
//! - One member of each role is its [`coordinator`]: it gives units that nobody works for to members, one [`plan`] after the other, by writing
//!   Assignments (`kubectl get assignments`). It is itself a unit, so what it writes is fenced.
//! - Every member follows the Assignments: what names it is held by its [`Placement`](oarlock_mesh::Placement).
//! - With a bus, members say four times a second that they live ([`presence`]), and who falls silent loses its units long before its Lease runs out.
//!
//! Safety does not rest on any of it: every write for a unit is compared with its Assignment in the same commit. A wrong guess about who lives
//! costs a move. [`liveness`] and [`hearing`] guess by this process's own monotonic clock; no two clocks are compared.

mod coordinator;
mod hearing;
mod liveness;
mod member;
mod metrics;
mod plan;
mod presence;
mod settling;
mod start;
mod view;

pub use start::{Error, Options, start};

/// The rows of this crate.
pub static KINDS: [&oarlock_runtime::ActorKind; 4] =
    [&member::MEMBER, &coordinator::COORDINATOR, &start::FOLLOWER, &presence::PRESENCE];

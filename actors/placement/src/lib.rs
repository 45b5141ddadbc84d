//! Assigns units of work to the processes that share a role, such as several controller managers.
//!
//! - [`start()`] makes this process a [`member`] of its role: the process renews a Lease in `kube-system`, and labels the Lease when it leaves.
//! - One member of each role is the [`coordinator`]: it follows a [`plan`] to assign units without a working holder to members, by writing
//!   Assignments (`kubectl get assignments`). Coordination is itself a unit, so the coordinator's writes are fenced.
//! - Every member watches the Assignments ([`follower`]); its [`Placement`](oarlock_mesh::Placement) holds the units that are assigned to it.
//! - With a bus, members send four heartbeats a second ([`presence`]); a silent member loses its units long before its Lease expires.
//!
//! Safety does not depend on failure detection: every write for a unit is compared with the unit's Assignment in the same commit. A wrong guess
//! about a member costs only a needless move. [`liveness`] and [`hearing`] use this process's own monotonic clock; no two clocks are compared.

mod coordinator;
mod crew;
mod follower;
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

/// The actor kinds of this crate.
pub static KINDS: [&oarlock_runtime::ActorKind; 4] =
    [&member::MEMBER, &coordinator::COORDINATOR, &follower::FOLLOWER, &presence::PRESENCE];

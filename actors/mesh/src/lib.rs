//! The crew's work in units, and which of them this process may act for.
//!
//! - [`Unit`]: what is assigned as a whole: a sixteenth of the keys of all partitioned controllers, a controller that runs in one place, ….
//! - [`Placement`]: the units that this process holds, each under its epoch. With one process it holds them all, without a claim.
//!
//! Invariant: clocks and messages decide when a unit is tried to be moved, never whether its old holder may still write: every write for a
//! unit is made under [`oarlock_client::Fence`], and compared with the unit's Assignment in the same commit.

mod placement;
mod unit;

pub use placement::{Changes, Claim, Holder, Placement};
pub use unit::{PARTITIONS, Scope, Unit};

//! The crew's work in units, which of them this process may act for, and how its members ask one another.
//!
//! - [`Unit`]: what is assigned as a whole: a sixteenth of the keys of all partitioned controllers, a controller that runs in one place, ….
//! - [`Placement`]: the units that this process holds, each under its epoch. With one process it holds them all, without a claim.
//! - [`Permit`]: the right to one call outside of the API, where nothing compares epochs: a clock grants it.
//! - [`join()`] makes this process a member of the bus; [`attend`] lets it say that it lives, hear who else does, and tell what it has carried.
//! - [`Service`] answers asks: so many at once, each with its deadline and trace, and declines the others at once with their reason.
//! - [`inspect`] asks everybody what they have carried, [`muster`] what runs in them.
//!
//! Invariant: clocks and messages decide when a unit is tried to be moved, never whether its old holder may still write: every write for a
//! unit is made under [`oarlock_client::Fence`], and compared with the unit's Assignment in the same commit. Only what is done outside of the API
//! rests on a clock, and so moves later ([`Standing`]).

pub mod inspect;
mod join;
mod member;
mod metrics;
pub mod muster;
mod outside;
mod placement;
mod roster;
mod serve;
mod service;
mod unit;

pub use join::{JoinError, connect, join, member_name};
pub use member::{attend, is_here};
pub use outside::{LONGEST, MARGIN, NoPermit, Permit, Standing};
pub use placement::{Changes, Claim, Holder, Placement};
pub use roster::BEAT;
pub use service::{Asked, Service};
pub use unit::{PARTITIONS, Scope, Unit};

/// The rows of this crate.
pub static KINDS: [&oarlock_runtime::ActorKind; 2] = [&member::PRESENCE, &service::SERVICE];

//! The bus between processes: who may say what to whom, in which envelope, over NATS or in memory.
//!
//! * [`Subject`] and [`Pattern`] are made by the constructors of one table ([`subjects`]): one row per kind of subject says what travels there
//!   and who may publish and hear. Permissions of nats-server are rendered from the same rows ([`permissions`]).
//! * [`Bus`] is what everybody holds: [`ask`](Bus::ask) has an answer or a typed reason within its budget, [`hint`](Bus::hint) is lossy and never
//!   waits, [`serve`](Bus::serve) and [`listen`](Bus::listen) hear.
//! * Two transports have the same semantics, and one contract suite runs over both: [`Bus::connect`] speaks to NATS, [`Bus::memory`] to
//!   an [`Exchange`] of the same process, by tokio's clock alone, so that it runs under virtual time.
//!
//! What holds, whatever the transport: delivery is at most once; nobody there is known at once; nothing is kept for a time without a connection, so that
//! nothing is ever sent late; every queue is bounded, an ask that finds it full is answered [`AskError::Overloaded`], a hint is lost and counted
//! ([`Heard::Lost`]); messages of different senders have no order. Work that must not be lost is an object in the store, never a message.
//!
//! Messages are declared in the top-level folder `proto/` (its README says how) and generated in `libs/contracts`: [`proto`].

mod ask;
mod bus;
pub mod credentials;
mod envelope;
mod error;
mod hints;
mod link;
mod memory;
mod name;
mod nats;
pub mod permissions;
mod proof;
mod queue;
mod role;
pub mod stats;
mod subject;
pub mod subjects;
pub mod trace;
mod transport;

/// The messages, one module per package: `proto::bus::v1` is `oarlock.bus.v1`.
pub use oarlock_contracts::oarlock as proto;

pub use ask::{Ask, Asks, Decline};
pub use bus::{Bus, WeakBus};
pub use error::{AnswerError, AskError, HintError, ListenError};
pub use hints::{Heard, Hint, Hints};
pub use link::State;
pub use memory::Exchange;
pub use name::BadName;
pub use nats::{BadOptions, Options, Spawn, TokioSpawn};
pub use proof::{BadRoleKeys, RoleKeys};
pub use role::{Identity, Role};
pub use subject::{Pattern, Subject};

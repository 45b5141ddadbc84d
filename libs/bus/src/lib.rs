//! The message bus between processes, over NATS or in memory: subjects, permissions, envelopes, asks and hints.
//!
//! * [`Subject`] and [`Pattern`] are built by the constructors of one table ([`subjects`]). Each row defines one kind of subject: what it carries, who may publish and who may
//!   subscribe. Permissions of nats-server are rendered from the same rows ([`permissions`]).
//! * [`Bus`] is a process's handle: [`ask`](Bus::ask) gets an answer or a typed error within its budget, [`hint`](Bus::hint) is lossy and never waits, [`serve`](Bus::serve)
//!   and [`listen`](Bus::listen) subscribe.
//! * Two transports have the same semantics, checked by one contract suite: [`Bus::connect`] speaks to NATS; [`Bus::memory`] joins an [`Exchange`] of the same process, which
//!   uses only tokio's clock and so runs under virtual time.
//!
//! Guarantees of every transport: delivery is at most once; a missing receiver is reported at once; a message is never queued for a later connection and so never sent late;
//! every queue is bounded (an ask that finds it full is answered [`AskError::Overloaded`], a hint is dropped and counted, [`HintEvent::Lost`]); messages of different senders have
//! no order. Work that must not be lost belongs into an object in the store, not into a message.
//!
//! Messages are declared in the top-level folder `proto/` (see its README) and generated in `libs/contracts`: [`proto`].

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
mod reply;
mod role;
pub mod stats;
mod subject;
pub mod subjects;
mod transport;

/// The generated messages, one module per package: `proto::bus::v1` is `oarlock.bus.v1`.
pub use oarlock_contracts::oarlock as proto;

pub use ask::{Ask, Asks, Decline};
pub use bus::{Bus, WeakBus};
pub use error::{AnswerError, AskError, HintError, ListenError};
pub use hints::{Hint, HintEvent, Hints};
pub use link::State;
pub use memory::Exchange;
pub use name::BadName;
pub use nats::{BadOptions, Options, Spawn, TokioSpawn};
pub use proof::{BadRoleKeys, RoleKeys};
pub use role::{Identity, Role};
pub use subject::{Pattern, Subject};

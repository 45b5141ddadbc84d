//! Supervised actors. Every long-lived service of Oarlock is an actor; every request, watch and reconcile is a task that an actor owns.
//!
//! This crate builds on ractor and adds what a control plane needs: a declared policy per kind of actor ([`ActorKind`]), bounded mailboxes, handles
//! that stay valid across restarts ([`Handle`]), supervision by progress, gated tasks ([`Gate`]), shutdown in phases ([`shutdown`]), one clock and
//! one source of randomness ([`clock`], [`rng`]), statuses for operators ([`ActorStatus`]), and virtual time for tests (`Universe`, feature `sim`).
//! An *incarnation* is one run of an actor between two restarts. `docs/semantics.md` lists the guarantees.
//!
//! ```
//! use oarlock_runtime::{Actor, ActorKind, Ctx, Failure, Options, Phase, Reply, System, clock};
//! use std::time::Duration;
//!
//! pub static COUNTER: ActorKind = ActorKind { name: "doc.counter", phase: Phase::Crew, ..ActorKind::DEFAULT };
//!
//! enum Message {
//!     Add(u64),
//!     Read(Reply<u64>),
//! }
//!
//! struct Counter {
//!     first: u64,
//! }
//!
//! impl Actor for Counter {
//!     type Message = Message;
//!     type State = u64;
//!
//!     async fn start(&self, _: &Ctx<Message>) -> Result<u64, Failure> {
//!         Ok(self.first)
//!     }
//!
//!     async fn handle(&self, sum: &mut u64, message: Message, _: &Ctx<Message>) -> Result<(), Failure> {
//!         match message {
//!             Message::Add(n) => *sum += n,
//!             Message::Read(reply) => reply.send(*sum),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Failure> {
//! let system = System::start(Options::default()).await?;
//! let counter = system.spawn(&COUNTER, "main", Counter { first: 1 }).await?;
//! counter.try_send(Message::Add(2))?;
//! assert_eq!(counter.ask(Message::Read, clock::after(Duration::from_secs(1))).await?, 3);
//! # Ok(())
//! # }
//! ```

mod actor;
pub mod clock;
mod context;
mod error;
pub mod gate;
mod handle;
mod incarnation;
pub mod kind;
mod mailbox;
mod observe;
mod policy;
mod progress;
pub mod rng;
mod run;
mod service_manager;
pub mod shutdown;
mod slot;
mod spawn;
mod spin;
mod start;
mod stop;
mod supervisor;
mod system;
pub mod trace;
#[cfg(any(test, feature = "sim"))]
pub mod universe;
mod watchdog;
mod watched;

pub use actor::Actor;
pub use clock::Instant;
pub use context::{Ctx, LoopCtx};
pub use error::{Error, Failure, SendError};
pub use gate::{Gate, Task, TaskError};
pub use handle::{Handle, LoopHandle, Permit, Reply};
pub use kind::{ActorKind, Backoff, Exhausted, OnFailure, OnShutdown, OnSpin, Phase};
pub use observe::ActorStatus;
pub use rng::Rng;
pub use slot::Life;
pub use system::{Fatal, Options, System};
#[cfg(any(test, feature = "sim"))]
pub use universe::Universe;
pub use watchdog::{OnStuck, Watchdog};
pub use watched::{Follower, Watched};

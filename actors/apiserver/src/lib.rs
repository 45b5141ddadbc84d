//! The front door: listener, request pipeline, verbs, discovery, OpenAPI.
//!
//! [`Server`] is what every request shares. A request, whatever carried it, becomes a call with a decoded object: [`http`] makes it of bytes,
//! the in-process transport takes it as it is. [`call`] authorizes and hands it to one of [`verbs`] or [`subresources`]; [`pipeline`] is what every
//! write passes between decoding and commit.

mod absent;
mod allocate;
pub mod answers;
pub mod bootstrap;
pub mod call;
pub mod caller;
pub mod change;
pub mod config;
pub mod discovery;
pub mod errors;
mod escalation;
mod health;
pub mod http;
mod identity;
pub mod in_process;
mod inflight;
pub mod kubelets;
mod large;
mod lookup;
mod metrics;
pub mod milestones;
mod now;
mod openapi;
mod ownership;
mod page;
mod patching;
mod pipeline;
mod policy;
mod reviews;
mod rights;
pub mod server;
pub mod start;
mod state;
pub mod streaming;
mod subresources;
mod table;
pub mod target;
pub mod termination;
pub mod verbs;
mod version;

pub use caller::Caller;
pub use config::Config;
pub use in_process::InProcess;
pub use inflight::Limits;
pub use lookup::ReaderLookup;
pub use server::{Parts, Server};
pub use start::{Assembly, Options, Running, StartError, assemble, start};
pub use state::State;
pub use target::Target;
pub use termination::Termination;

//! The API server: HTTPS listener, request handling, verbs, write pipeline, discovery and OpenAPI.
//!
//! [`Server`] holds the state that all requests share. Every request becomes a call with a decoded object: [`http`] decodes it from bytes, and the
//! in-process transport ([`in_process`]) passes the object as it is. [`call`] authorizes the call and hands it to a verb ([`verbs`]) or to a
//! subresource (`subresources`). Every write passes through the stages of `pipeline` between decoding and commit.

mod absent;
mod allocate;
pub mod answers;
mod authorizer_feed;
pub mod bootstrap;
pub mod call;
pub mod caller;
pub mod change;
pub mod config;
pub mod discovery;
pub mod egress;
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
mod reviews;
mod rights;
pub mod server;
pub mod start;
mod state;
pub mod streaming;
mod subresources;
pub mod target;
pub mod termination;
pub mod verbs;
mod version;
mod warnings;

pub use caller::Caller;
pub use config::{Config, Termination};
pub use egress::Egress;
pub use in_process::InProcess;
pub use inflight::Limits;
pub use lookup::ReaderLookup;
pub use server::{Parts, Server};
pub use start::{Assembly, Options, Running, StartError, assemble, start};
pub use state::State;
pub use target::Target;

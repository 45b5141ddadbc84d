//! The API client: verbs, transports, connections.
//!
//! * [`Request`] and [`Reply`] represent calls independently of HTTP, so the apiserver's in-process transport takes them directly.
//! * [`Transport`] carries calls as one fixed identity; [`WatchStream`] returns events in batches.
//! * [`Client`] is the handle for controllers, schedulers and kubelets: typed verbs over a transport, with a budget for every call.
//! * [`mod@written`] counts the writes of a piece of work.
//! * [`mod@fence`] makes writes conditional on a claim that another process may have taken over.
//!
//! Objects are shared bytes ([`Object`]); they are decoded only by [`Object::obj`].

mod bodies;
mod client;
pub mod fence;
pub mod https;
mod object;
mod options;
mod peek;
mod raw;
mod request;
mod transport;
mod verbs;
mod wire;
pub mod written;

pub use client::Client;
pub use fence::Fence;
pub use https::{Endpoint, Https};
pub use oarlock_codec::Wanted;
pub use object::{List, Object};
pub use options::{
    DeleteOptions, FieldValidation, GetOptions, ListOptions, PatchType, Propagation, VersionMatch, WriteOptions,
};
pub use peek::Head;
pub use raw::{Method, RawBody, RawReply, RawRequest};
pub use request::{Call, Event, Reply, Request};
pub use transport::{Transport, Watch, WatchStream};
pub use verbs::Deleted;
pub use wire::{decode, decode_wanted, encode};

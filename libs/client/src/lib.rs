//! The client of the API: verbs, transports, connections.
//!
//! * [`Request`] and [`Reply`] are calls as values; they know nothing of HTTP, so the in-process transport of the apiserver takes
//!   them as they are.
//! * [`Transport`] carries them as one fixed identity; [`WatchStream`] hands out events in batches.
//! * [`Client`] is what controllers, schedulers and kubelets hold: typed convenience over a transport, a budget for every call.
//! * [`mod@fence`]: writes under a claim that somebody else may have taken over.
//!
//! Bodies are shared bytes ([`Object`]); nothing is decoded until somebody asks for [`Object::obj`].

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

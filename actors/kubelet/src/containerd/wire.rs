//! containerd's own events (`containerd.services.events.v1`, `containerd.events`; Apache-2.0), as far as they are read.
#![allow(missing_docs, reason = "names and meaning are the contract's")]

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct SubscribeRequest {
    #[prost(string, repeated, tag = "1")]
    pub(super) filters: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Envelope {
    #[prost(string, tag = "3")]
    pub(super) topic: String,
    #[prost(message, optional, tag = "4")]
    pub(super) event: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: bytes::Bytes,
}

/// `TaskExit`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskExit {
    #[prost(string, tag = "1")]
    pub(super) container_id: String,
    /// The process; the container's own has the container's id.
    #[prost(string, tag = "2")]
    pub(super) id: String,
}

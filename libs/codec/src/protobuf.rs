//! Protobuf with the behaviour of upstream's generated Go code: bodies in the `k8s\0` envelope, watch frames.

mod decode;
mod encode;
mod envelope;
mod plan;
mod wire;

pub use decode::{decode, decode_message, peek_gvk};
pub use encode::{encode, encode_message};
pub use envelope::{Envelope, MAGIC, open, seal, watch_event, watch_frame};

//! YAML request bodies and answers, with the behaviour of `sigs.k8s.io/yaml`: YAML 1.1 scalars, string keys, sorted maps.

mod read;
mod resolve;
mod write;

pub use read::{decode, decode_value};
pub use write::{encode, encode_value};

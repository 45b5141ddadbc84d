//! JSON, YAML and protobuf encodings of [`Obj`](oarlock_schema::Obj), and the negotiation of a request's encoding.
//!
//! * [`json`]: schema-directed decoding straight from bytes, Go-compatible encoding, and the position of `resourceVersion`.
//! * [`protobuf`]: the binary form with its envelope and watch frames.
//! * [`yaml`]: YAML bodies and answers.
//! * [`tree`]: typing a generic [`Value`](oarlock_schema::Value) (after patches, from YAML) and the way back.
//! * [`negotiate`]: media types. [`body`]: request bodies of any encoding, with upstream's answers to bodies that cannot be decoded.
//! * [`partial`]: objects reduced to their metadata. [`printers`]: the cells of tables.
//!
//! Every decoder builds canonical structs in one pass and reports unknown and duplicate fields with upstream's texts.

mod base64;
pub mod body;
mod error;
mod frame;
pub mod json;
pub mod negotiate;
pub mod partial;
pub mod printers;
pub mod protobuf;
mod source;
mod stamp;
pub mod tree;
mod walk;
mod wanted;
pub mod yaml;

pub use error::{DecodeError, Finding, FindingKind, handled_as, strict_error, unrecognized};
pub use walk::{Decoded, MAX_DEPTH, Mode};
pub use wanted::Wanted;

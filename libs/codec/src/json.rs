//! JSON with the behaviour of upstream's servers.

mod decode;
mod encode;
pub(crate) mod number;
mod peek;
mod pretty;
mod splice;
pub(crate) mod syntax;
pub(crate) mod text;
mod words;

pub(crate) use decode::{bad_syntax, decode_noting, utf8};
pub use decode::{decode, decode_value, decode_wanted};
pub use encode::{Encoded, encode, encode_into, encode_value};
pub(crate) use encode::{encode_raw, escaped};
pub use peek::{Peeked, peek_gvk, peek_value};
pub use pretty::pretty;
pub use splice::{splice_offset, splice_resource_version};

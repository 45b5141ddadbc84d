//! Decoding and encoding of objects with the codec.

use bytes::Bytes;
use oarlock_codec::{Wanted, json};
use oarlock_meta::Status;
use oarlock_schema::{Obj, TypeRef};

/// Decodes JSON from a server as an object of `ty`; fills in `kind` and `apiVersion`, which list items lack. Unknown fields are dropped: a newer server may have more fields.
///
/// # Errors
/// 500 when the bytes do not fit the type.
pub fn decode(ty: TypeRef, bytes: &[u8]) -> Result<Obj, Status> {
    decode_wanted(ty, bytes, Wanted::all())
}

/// As [`decode`], for the wanted fields only.
///
/// # Errors
/// As [`decode`].
pub fn decode_wanted(ty: TypeRef, bytes: &[u8], wanted: &Wanted) -> Result<Obj, Status> {
    json::decode_wanted(bytes, ty, wanted)
        .map_err(|e| Status::internal_error(format!("the server's {} cannot be read: {e}", ty.name)))
}

/// Encodes an object as JSON.
#[must_use]
pub fn encode(object: &Obj) -> Bytes {
    json::encode(object).bytes.into()
}

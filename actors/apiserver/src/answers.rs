//! Converts objects and store entries into replies.

use oarlock_client::{Object, Reply};
use oarlock_meta::{Revision, Status};
use oarlock_schema::Obj;
use oarlock_store::Entry;

use crate::target::Target;

/// Converts a store entry into a reply.
///
/// # Errors
/// 500 when the stored bytes do not decode.
pub fn reply(target: &Target<'_>, entry: &Entry, created: bool) -> Result<Reply, Status> {
    Ok(Reply::Object { object: target.object(entry)?, created })
}

/// Converts an object that is not stored into a reply.
#[must_use]
pub fn answer(obj: &Obj, created: bool) -> Reply {
    let bytes = oarlock_codec::json::encode(obj).bytes.into();
    let revision = obj.meta().resource_version().parse().map_or(Revision::ZERO, Revision);
    Reply::Object { object: Object::new(obj.ty(), bytes, revision), created }
}

//! Objects as answers to calls.

use oarlock_client::{Object, Reply};
use oarlock_meta::{Revision, Status};
use oarlock_schema::Obj;
use oarlock_store::Entry;

use crate::target::Target;

/// An entry as an answer.
///
/// # Errors
/// 500 when stored bytes do not decode.
pub fn reply(target: &Target<'_>, entry: &Entry, created: bool) -> Result<Reply, Status> {
    Ok(Reply::Object { object: target.object(entry)?, created })
}

/// An object that is not stored as an answer.
#[must_use]
pub fn answer(obj: &Obj, created: bool) -> Reply {
    let bytes = oarlock_codec::json::encode(obj).bytes.into();
    let revision = obj.meta().resource_version().parse().map_or(Revision::ZERO, Revision);
    Reply::Object { object: Object::new(obj.ty(), bytes, revision), created }
}

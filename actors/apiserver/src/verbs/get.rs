//! Reads one object: GET of a named object.

use oarlock_client::{GetOptions, Object};
use oarlock_meta::Status;

use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Reads an object; `resourceVersion` waits until the View has reached that revision.
///
/// # Errors
/// 404; 504 when the View does not reach the revision in time.
pub async fn get(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    options: &GetOptions,
) -> Result<Object, Status> {
    server.fresh_enough(options.resource_version, caller.deadline).await?;
    let entry = server.current(&target.key(target.name)?).await?.ok_or_else(|| target.not_found())?;
    target.object(&entry)
}

//! How failures below the API become Status objects; this is the only place.

use oarlock_meta::Status;
use oarlock_store::{ReadError, WriteError};

/// Upstream tells clients to come back after a second.
const RETRY_AFTER: u32 = 1;

/// A read that the View could not answer.
#[must_use]
pub fn read(error: ReadError) -> Status {
    match error {
        ReadError::Expired { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        ReadError::Future { asked, current } => {
            Status::resource_version_too_large(asked.get(), current.get(), RETRY_AFTER)
        }
        ReadError::Log(text) => Status::service_unavailable(text),
    }
}

/// A write that was not, or maybe not, made. Conflicts are the verbs' business; here they are an unexpected one.
#[must_use]
pub fn write(error: &WriteError) -> Status {
    match error {
        WriteError::Unknown => Status::timeout("outcome unknown: the write may or may not have happened", 0),
        WriteError::Overloaded => {
            Status::too_many_requests("too many writes are waiting, please try again later", RETRY_AFTER)
        }
        WriteError::Stopped => Status::service_unavailable("the server is shutting down"),
        WriteError::Conflict { .. } => Status::internal_error(error),
        WriteError::Log(inner) => Status::service_unavailable(format!("the store refuses writes: {inner}")),
    }
}

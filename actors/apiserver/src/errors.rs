//! Converts the errors of the store into Status objects. No other file does this.

use oarlock_meta::Status;
use oarlock_store::{ReadError, WriteError};

/// Seconds after which a client should retry; upstream's value.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Converts the error of a read that the View could not answer.
#[must_use]
pub fn read(error: ReadError) -> Status {
    match error {
        ReadError::Expired { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        ReadError::Future { asked, current } => {
            Status::resource_version_too_large(asked.get(), current.get(), RETRY_AFTER_SECONDS)
        }
        ReadError::Log(text) => Status::service_unavailable(text),
    }
}

/// Converts the error of a write that failed or whose outcome is unknown. The verbs handle conflicts; one that arrives here is unexpected.
#[must_use]
pub fn write(error: &WriteError) -> Status {
    match error {
        WriteError::Unknown => Status::timeout("outcome unknown: the write may or may not have happened", 0),
        WriteError::Overloaded => {
            Status::too_many_requests("too many writes are waiting, please try again later", RETRY_AFTER_SECONDS)
        }
        WriteError::Stopped => Status::service_unavailable("the server is shutting down"),
        WriteError::Conflict { .. } => Status::internal_error(error),
        WriteError::Log(inner) => Status::service_unavailable(format!("the store refuses writes: {inner}")),
    }
}

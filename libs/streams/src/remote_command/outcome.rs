//! The result of a command: reads the kubelet's error stream and makes the `Status` for the client.

use oarlock_meta::Status;
use oarlock_meta::status::{Cause, Reason};

use super::Protocol;

/// The reason of a `Status` about a command that ended with another exit code than 0.
const NON_ZERO_EXIT_CODE: &str = "NonZeroExitCode";
/// The type of the cause that holds the exit code.
const EXIT_CODE: &str = "ExitCode";

/// Makes the `Status` of a command that ended with `code`, as a kubelet writes the result to the error stream.
#[must_use]
pub fn exit(code: u8) -> Status {
    if code == 0 {
        return Status { code: 0, ..Status::success() };
    }
    exited(code, &format!("command terminated with non-zero exit code: exit status {code}"))
}

fn exited(code: u8, message: &str) -> Status {
    let mut status = Status { success: false, code: 0, ..Status::success() };
    message.clone_into(&mut status.message);
    status.reason = Reason::Other(NON_ZERO_EXIT_CODE.into());
    let cause = Cause { reason: EXIT_CODE.into(), message: code.to_string(), ..Cause::default() };
    status.details_mut().causes.push(cause);
    status
}

/// Makes the `Status` about a failure of the connection.
#[must_use]
pub fn failure(error: impl std::fmt::Display) -> Status {
    Status::internal_error(error)
}

/// Makes the client's `Status` from the content of the error stream.
pub(super) fn of_message(protocol: Protocol, message: &[u8]) -> Status {
    match (protocol >= Protocol::V4, message.is_empty()) {
        // The error stream of these protocols is never empty, so the connection was lost. (Upstream reports success in this case.)
        (true, true) => failure("the connection to the container was lost before the command's end was told"),
        (true, false) => of_status(message),
        (false, true) => exit(0),
        (false, false) => failure(format_args!("error executing remote command: {}", String::from_utf8_lossy(message))),
    }
}

fn of_status(message: &[u8]) -> Status {
    let protocol_error = |why: &dyn std::fmt::Display| failure(format_args!("error stream protocol error: {why}"));
    let status: Status = match serde_json::from_slice(message) {
        Ok(status) => status,
        // Container runtimes omit the kind.
        Err(_) => match bare(message) {
            Ok(status) => status,
            Err(error) => {
                let shown = oarlock_meta::quote::quote(&String::from_utf8_lossy(message));
                return protocol_error(&format_args!("{error} in {shown}"));
            }
        },
    };
    if status.success {
        return exit(0);
    }
    if status.reason.as_str() != NON_ZERO_EXIT_CODE {
        return failure(status.message);
    }
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    match causes.iter().find(|cause| cause.reason == EXIT_CODE).map(|cause| cause.message.parse()) {
        Some(Ok(code)) => exited(
            code,
            &format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
        ),
        Some(Err(_)) => protocol_error(&"invalid exit code value"),
        None => protocol_error(&"no ExitCode cause given"),
    }
}

/// Reads a Status without its kind.
fn bare(message: &[u8]) -> Result<Status, serde_json::Error> {
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(message)?;
    object.insert("kind".to_owned(), "Status".into());
    serde_json::from_str(&serde_json::Value::Object(object).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runtime_says_becomes_what_kubectl_reads() {
        let lost = of_message(Protocol::V4, b"");
        assert!(!lost.success);
        assert!(of_message(Protocol::V2, b"").success);
        assert!(of_message(Protocol::V4, br#"{"metadata":{},"status":"Success"}"#).success);
        let left = br#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status 3",
            "reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        let status = of_message(Protocol::V5, left);
        assert_eq!(status.message, "command terminated with non-zero exit code: command terminated with exit code 3");
        assert_eq!(status.details.unwrap().causes[0].message, "3");
        let other = of_message(Protocol::V4, br#"{"status":"Failure","message":"no such file"}"#);
        assert_eq!((other.code, other.message.as_str()), (500, "Internal error occurred: no such file"));
        for odd in [&b"x"[..], br#"{"status":"Failure","reason":"NonZeroExitCode"}"#] {
            assert!(of_message(Protocol::V4, odd).message.contains("error stream protocol error"), "{odd:?}");
        }
    }

    #[test]
    fn damaged_messages_never_become_a_success() {
        let whole = serde_json::to_vec(&exit(7)).unwrap();
        for bytes in oarlock_testkit::damaged(1, &whole, 3000) {
            let status = of_message(Protocol::V4, &bytes);
            assert!(!status.success || String::from_utf8_lossy(&bytes).contains("Success"), "{bytes:?}");
        }
    }
}

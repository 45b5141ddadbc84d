//! Errors of lifecycle hooks, in upstream's words.

use std::time::Duration;

use oarlock_meta::quote::quote;
use oarlock_schema::Str;

use crate::cri;
use crate::probes::{RequestError, http};

/// Which hook failed, on which container, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HookError {
    /// A command.
    #[error("Exec lifecycle hook ([{command}]) {}: {why}, message: {}", whose(.container, .pod), quote(.output))]
    Exec {
        /// The command with its arguments, separated by blanks.
        command: String,
        /// Name of the container.
        container: Str,
        /// `name_namespace(uid)`.
        pod: String,
        /// Why the command failed.
        #[source]
        why: HookFailure,
        /// What the command wrote to its standard output and standard error.
        output: String,
    },
    /// An HTTP request.
    #[error("HTTP lifecycle hook ({path}) {}: {why}", whose(.container, .pod))]
    Http {
        /// Path of the request.
        path: String,
        /// Name of the container.
        container: Str,
        /// `name_namespace(uid)`.
        pod: String,
        /// Why no answer came.
        #[source]
        why: HookFailure,
    },
    /// A sleep that is longer than the hook's time limit.
    #[error("Sleep lifecycle hook ({seconds}) {}: container terminated before sleep hook finished", whose(.container, .pod))]
    Sleep {
        /// Wanted length of the sleep.
        seconds: u64,
        /// Name of the container.
        container: Str,
        /// `name_namespace(uid)`.
        pod: String,
    },
    /// A handler that no kubelet runs.
    #[error("Cannot run handler: invalid handler: tcpSocket is not supported")]
    Invalid,
}

/// Why the command or the request of a hook failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HookFailure {
    /// The hook's time limit has passed.
    #[error("hook not completed in {} s", .0.as_secs())]
    NotCompleted(Duration),
    /// The command ended with another code than 0.
    #[error("command '{command}' exited with {code}: {stderr}")]
    Exited {
        /// The command with its arguments, separated by blanks.
        command: String,
        /// Exit code of the command.
        code: i32,
        /// What the command wrote to its standard error.
        stderr: String,
    },
    /// The runtime did not run the command.
    #[error(transparent)]
    Runtime(cri::Error),
    /// The pod has no address, and the hook names no host.
    #[error("failed to find networking container: no address")]
    NoAddress,
    /// The hook's specification gives no address of a server.
    #[error(transparent)]
    Target(RequestError),
    /// The server gave no answer.
    #[error(transparent)]
    Request(http::Error),
}

/// Returns the words that name the container of a failed hook.
fn whose(container: &str, pod: &str) -> String {
    format!("for Container {} in Pod {} failed - error", quote(container), quote(pod))
}

//! The errors of starting controllers.

use oarlock_meta::Status;

use crate::harness::Requirement;

/// Why controllers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--controllers` names controllers that do not exist.
    #[error("{}", unknown(.0))]
    Unknown(Vec<String>),
    /// A controller uses a [`Requirement`] that its row does not declare.
    #[error("controller {name} uses {need} and does not declare it")]
    Undeclared {
        /// Name of the controller.
        name: &'static str,
        /// The undeclared need.
        need: Requirement,
    },
    /// The runtime refused an actor.
    #[error("controller {name}")]
    Spawn {
        /// Name of the controller.
        name: &'static str,
        /// Error of the runtime.
        source: oarlock_runtime::Error,
    },
    /// An informer could not be started.
    #[error("informer")]
    Informer(#[from] oarlock_informer::Error),
    /// The schema lacks a resource.
    #[error("schema")]
    Schema(#[from] Status),
}

/// Upstream's text for names that no controller has: one message for each name, in brackets when there are several.
fn unknown(names: &[String]) -> String {
    let messages: Vec<String> =
        names.iter().map(|name| format!("{name:?} is not in the list of known controllers")).collect();
    if let [message] = messages.as_slice() { message.clone() } else { format!("[{}]", messages.join(", ")) }
}

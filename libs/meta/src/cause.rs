//! The causes of a `Status`: [`Cause`], and the reasons of causes other than field errors.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The answer is not one that the protocol allows.
pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
/// Another manager owns the field with another value (server-side apply).
pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
/// The requested revision is ahead of the server's.
pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
/// The namespace is being deleted.
pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// The writer's claim is not the current one, so the writer must stop acting under the claim. Defined by Oarlock.
pub const STALE_OWNER: &str = "StaleOwner";
/// A PodDisruptionBudget forbids the eviction.
pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";

/// One detail of a failure (upstream `metav1.StatusCause`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// A machine-readable reason. The set is open; see the constants of this module and [`FieldErrorKind`](crate::FieldErrorKind).
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub reason: CompactString,
    /// The message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, if the cause concerns one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

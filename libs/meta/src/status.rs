//! `Status`: the one error type of the API, and the answer of deletes (upstream `metav1.Status`, `api/errors`).
//!
//! The texts are upstream's, byte for byte, because clients and people match on them.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::field::{FieldError, aggregate, to_causes};
use crate::gvk::{GroupKind, GroupResource};
use crate::quote::quote;

mod make;
pub use make::OPTIMISTIC_LOCK;
mod wire;

/// Why a request failed, in one machine-readable word (upstream `metav1.StatusReason`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No reason given; on the wire it is the empty text.
    #[default]
    Unknown,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409: the name is taken.
    AlreadyExists,
    /// 409: the object changed, or someone else owns it.
    Conflict,
    /// 410: gone for good.
    Gone,
    /// 422.
    Invalid,
    /// 500: the server knows the request but could not do it in time.
    ServerTimeout,
    /// 500: the stored object cannot be read.
    StorageReadError,
    /// 504.
    Timeout,
    /// 429.
    TooManyRequests,
    /// 400.
    BadRequest,
    /// 405.
    MethodNotAllowed,
    /// 406.
    NotAcceptable,
    /// 413.
    RequestEntityTooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 500.
    InternalError,
    /// 410: the revision or continue token is too old.
    Expired,
    /// 503.
    ServiceUnavailable,
    /// A word that this level of the API does not define, kept as received.
    Other(CompactString),
}

const REASONS: [(Reason, &str); 20] = [
    (Reason::Unknown, ""),
    (Reason::Unauthorized, "Unauthorized"),
    (Reason::Forbidden, "Forbidden"),
    (Reason::NotFound, "NotFound"),
    (Reason::AlreadyExists, "AlreadyExists"),
    (Reason::Conflict, "Conflict"),
    (Reason::Gone, "Gone"),
    (Reason::Invalid, "Invalid"),
    (Reason::ServerTimeout, "ServerTimeout"),
    (Reason::StorageReadError, "StorageReadError"),
    (Reason::Timeout, "Timeout"),
    (Reason::TooManyRequests, "TooManyRequests"),
    (Reason::BadRequest, "BadRequest"),
    (Reason::MethodNotAllowed, "MethodNotAllowed"),
    (Reason::NotAcceptable, "NotAcceptable"),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge"),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType"),
    (Reason::InternalError, "InternalError"),
    (Reason::Expired, "Expired"),
    (Reason::ServiceUnavailable, "ServiceUnavailable"),
];

impl Reason {
    /// The word on the wire; empty for [`Reason::Unknown`].
    #[must_use]
    pub fn as_str(&self) -> &str {
        if let Self::Other(word) = self {
            return word;
        }
        REASONS.iter().find(|(reason, _)| reason == self).map_or("", |(_, word)| word)
    }

    /// The reason for a word from the wire; never fails.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        REASONS
            .iter()
            .find(|(_, known)| *known == word)
            .map_or_else(|| Self::Other(word.into()), |(reason, _)| reason.clone())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Words for [`Cause::reason`] that are not field errors.
pub mod cause {
    /// The answer was none that the protocol allows.
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
    /// Another manager owns the field with another value (server-side apply).
    pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
    /// The asked revision is ahead of the server's.
    pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
    /// The namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The writer's claim is not the current one; it must stop to act under it. Ours.
    pub const STALE_OWNER: &str = "StaleOwner";
    /// A PodDisruptionBudget forbids the eviction.
    pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";
}

/// One detail of a failure (upstream `metav1.StatusCause`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Machine-readable word; the set is open, see [`cause`] and [`crate::field::FieldErrorKind`].
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub reason: CompactString,
    /// What a person reads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What the failure is about (upstream `metav1.StatusDetails`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Object name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub group: CompactString,
    /// The plural resource for most reasons, the Kind for Invalid.
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub kind: CompactString,
    /// Object uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Details, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which trying again may help; 0 = not said.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// The API's answer when there is no object to give: an error, or the success of a delete.
///
/// Serializes as the v1 `Status` object in upstream's field order. Displays as its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// False for a failure, true for `"status":"Success"`.
    pub success: bool,
    /// What a person reads.
    pub message: String,
    /// Machine-readable reason.
    pub reason: Reason,
    /// What it is about.
    pub details: Option<Box<Details>>,
    /// HTTP status code; 0 when the sender did not say.
    pub code: u16,
    /// `metadata.continue`: a fresh token that an expired list continuation carries.
    pub continue_token: Option<Box<str>>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "{} ({})", if self.success { "success" } else { "failure" }, self.code)
        } else {
            f.write_str(&self.message)
        }
    }
}

impl std::error::Error for Status {}

macro_rules! is_reason {
    ($($(#[$doc:meta])* $name:ident = $reason:ident / $code:literal;)*) => {
        impl Status {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> bool {
                self.is(&Reason::$reason, $code)
            }
        )*}
    };
}

is_reason! {
    /// The object or resource does not exist.
    is_not_found = NotFound / 404;
    /// The object changed under the caller, or another manager owns a field.
    is_conflict = Conflict / 409;
    /// The object breaks rules.
    is_invalid = Invalid / 422;
    /// The caller may not do this.
    is_forbidden = Forbidden / 403;
    /// The caller is unknown.
    is_unauthorized = Unauthorized / 401;
    /// The request makes no sense.
    is_bad_request = BadRequest / 400;
    /// The server wants the caller to slow down.
    is_too_many_requests = TooManyRequests / 429;
    /// The server failed.
    is_internal_error = InternalError / 500;
    /// The server cannot answer now.
    is_service_unavailable = ServiceUnavailable / 503;
    /// The time ran out.
    is_timeout = Timeout / 504;
    /// What was asked for is gone.
    is_gone = Gone / 410;
    /// The body type is not supported.
    is_unsupported_media_type = UnsupportedMediaType / 415;
}

impl Status {
    /// Upstream's rule: a known reason decides; with an unknown one the code does.
    fn is(&self, reason: &Reason, code: u16) -> bool {
        self.reason == *reason || (matches!(self.reason, Reason::Unknown | Reason::Other(_)) && self.code == code)
    }

    /// The name is taken. Only the reason tells it from a conflict.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// The revision or continue token is too old; list again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::Expired
    }

    /// The operation should be tried again (upstream `IsServerTimeout`).
    #[must_use]
    pub fn is_server_timeout(&self) -> bool {
        self.reason == Reason::ServerTimeout
    }

    /// The claim under which the write was made is not the current one: nothing was written, and nothing will be under it.
    #[must_use]
    pub fn is_stale_owner(&self) -> bool {
        self.cause(cause::STALE_OWNER).is_some()
    }

    /// The details, made if absent.
    pub fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_with(Box::default)
    }

    /// The same status with one more cause.
    #[must_use]
    pub fn with_cause(
        mut self,
        reason: impl Into<CompactString>,
        message: impl Into<String>,
        field: impl Into<String>,
    ) -> Self {
        let cause = Cause { reason: reason.into(), message: message.into(), field: field.into() };
        self.details_mut().causes.push(cause);
        self
    }

    /// The same status with the uid of the object it is about.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.details_mut().uid = uid.into();
        self
    }

    /// The first cause with this reason.
    #[must_use]
    pub fn cause(&self, reason: &str) -> Option<&Cause> {
        self.details.as_ref()?.causes.iter().find(|cause| cause.reason == reason)
    }

    /// Seconds after which the server suggests to try again.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)
    }

    /// The v1 Status as JSON bytes, without a trailing newline.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // A struct of texts and numbers always serializes; an empty body is the honest answer if that ever changes.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

//! `Status`: the one error type of the API, and the answer to deletes (upstream `metav1.Status`, `api/errors`).
//!
//! The texts are upstream's, byte for byte, because clients and people match on them.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

pub use crate::cause::{self, Cause};
use crate::field::{FieldError, aggregate, to_causes};
use crate::gvk::{GroupKind, GroupResource};
use crate::quote::quote;

mod make;
pub use make::OPTIMISTIC_LOCK;
mod wire;

/// The reason of a failed request, as one machine-readable word (upstream `metav1.StatusReason`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No reason given; the empty text on the wire.
    #[default]
    Unknown,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409: the name is in use.
    AlreadyExists,
    /// 409: the object has changed, or another manager owns a field.
    Conflict,
    /// 410: permanently removed.
    Gone,
    /// 422.
    Invalid,
    /// 500: the server understood the request but could not complete it in time.
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
    /// A reason that this level of the API does not define, kept as received.
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
    /// Returns the reason on the wire; empty for [`Reason::Unknown`].
    #[must_use]
    pub fn as_str(&self) -> &str {
        if let Self::Other(word) = self {
            return word;
        }
        REASONS.iter().find(|(reason, _)| reason == self).map_or("", |(_, word)| word)
    }

    /// Returns the reason for a word from the wire; never fails.
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

/// The object that a failure is about, with causes (upstream `metav1.StatusDetails`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Object name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub group: CompactString,
    /// The plural resource for most reasons, the kind for Invalid.
    #[serde(default, skip_serializing_if = "CompactString::is_empty")]
    pub kind: CompactString,
    /// Object uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which a retry may succeed; 0 = not stated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// The API's answer without an object: an error, or the success of a delete.
///
/// Serializes as the v1 `Status` object in upstream's field order. Displays as its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether the request succeeded (`"status":"Success"`).
    pub success: bool,
    /// The message for people.
    pub message: String,
    /// Machine-readable reason.
    pub reason: Reason,
    /// The object that the status is about.
    pub details: Option<Box<Details>>,
    /// HTTP status code; 0 when the sender did not state one.
    pub code: u16,
    /// The token `metadata.continue`: a fresh token for the client after an expired list continuation.
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
    /// Whether the object or resource does not exist.
    is_not_found = NotFound / 404;
    /// Whether the object changed since the caller read the object, or another manager owns a field.
    is_conflict = Conflict / 409;
    /// Whether the object violates validation rules.
    is_invalid = Invalid / 422;
    /// Whether the caller lacks permission.
    is_forbidden = Forbidden / 403;
    /// Whether the caller is not authenticated.
    is_unauthorized = Unauthorized / 401;
    /// Whether the request is malformed.
    is_bad_request = BadRequest / 400;
    /// Whether the server asks the caller to slow down.
    is_too_many_requests = TooManyRequests / 429;
    /// Whether the server failed.
    is_internal_error = InternalError / 500;
    /// Whether the server cannot answer now.
    is_service_unavailable = ServiceUnavailable / 503;
    /// Whether the request timed out.
    is_timeout = Timeout / 504;
    /// Whether the requested data is permanently removed (410 Gone).
    is_gone = Gone / 410;
    /// Whether the type of the body is unsupported.
    is_unsupported_media_type = UnsupportedMediaType / 415;
}

impl Status {
    /// Whether this status has `reason`, by upstream's rule: a known reason decides; with an unknown reason the code does.
    fn is(&self, reason: &Reason, code: u16) -> bool {
        self.reason == *reason || (matches!(self.reason, Reason::Unknown | Reason::Other(_)) && self.code == code)
    }

    /// Whether the name is in use. Only the reason distinguishes this answer from a conflict.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// Whether the revision or continue token is too old, so that the client must list again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::Expired
    }

    /// Whether the server asks for a retry of the operation (upstream `IsServerTimeout`).
    #[must_use]
    pub fn is_server_timeout(&self) -> bool {
        self.reason == Reason::ServerTimeout
    }

    /// Whether a write with this answer may have been made, or may still be made: the server failed, or no server answered. A refusal (any other 4xx) is
    /// certain.
    #[must_use]
    pub const fn has_unknown_outcome(&self) -> bool {
        !self.success && matches!(self.code, 0 | 408 | 500..)
    }

    /// Whether the claim of the write is not the current one: this write and every later write under the same claim are refused.
    #[must_use]
    pub fn is_stale_owner(&self) -> bool {
        self.cause(cause::STALE_OWNER).is_some()
    }

    /// Returns the details, created if absent.
    pub fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_with(Box::default)
    }

    /// Returns the same status with one more cause.
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

    /// Returns the same status with the uid of its object.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.details_mut().uid = uid.into();
        self
    }

    /// Returns the first cause with this reason.
    #[must_use]
    pub fn cause(&self, reason: &str) -> Option<&Cause> {
        self.details.as_ref()?.causes.iter().find(|cause| cause.reason == reason)
    }

    /// Returns the seconds after which the server suggests a retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        u32::try_from(seconds).ok().filter(|seconds| *seconds > 0)
    }

    /// Returns the v1 Status as JSON bytes, without a trailing newline.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Serializing a struct of texts and numbers cannot fail; should that change, an empty body claims nothing false.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

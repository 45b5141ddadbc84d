//! The constructors of `Status`: one per kind of failure, with upstream's texts (upstream `api/errors`).

use std::fmt;

use super::{Cause, CompactString, Details, FieldError, GroupKind, GroupResource, Reason, Status, aggregate, cause};
use super::{quote, to_causes};

/// Upstream's text for a failed optimistic lock; the usual `why` of [`Status::conflict`].
pub const OPTIMISTIC_LOCK: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Status {
    fn failure(code: u16, reason: Reason, message: String) -> Self {
        Self { success: false, message, reason, details: None, code, continue_token: None }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        }));
        self
    }

    fn retry(mut self, seconds: u32) -> Self {
        self.details_mut().retry_after_seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        self
    }

    /// Makes the `Success` answer, code 200, without details.
    #[must_use]
    pub fn success() -> Self {
        Self {
            success: true,
            message: String::new(),
            reason: Reason::Unknown,
            details: None,
            code: 200,
            continue_token: None,
        }
    }

    /// Makes the `Success` answer to a delete, which names the deleted object. Upstream leaves the code out of this body.
    #[must_use]
    pub fn success_deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status = Self::success().about(resource, name);
        status.code = 0;
        status.with_uid(uid)
    }

    /// Makes a 404: the resource has no object with this name.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::failure(404, Reason::NotFound, message).about(resource, name)
    }

    /// Makes a 404: nothing is served at the path (upstream's text for unknown resources).
    #[must_use]
    pub fn not_found_path() -> Self {
        let mut status =
            Self::failure(404, Reason::NotFound, "the server could not find the requested resource".to_owned());
        status.details = Some(Box::default());
        status
    }

    /// Makes a 409: the name is in use.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::failure(409, Reason::AlreadyExists, message).about(resource, name)
    }

    /// Makes a 409: every generated name was in use; the client may retry after `retry_after` seconds.
    #[must_use]
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Self::failure(409, Reason::AlreadyExists, message).about(resource, name).retry(retry_after)
    }

    /// Makes a 409: the stored state is not the one that the write expected; `why` is mostly [`OPTIMISTIC_LOCK`].
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::failure(409, Reason::Conflict, message).about(resource, name)
    }

    /// Makes a 409: the resourceVersion in the request is not the current one.
    #[must_use]
    pub fn conflict_modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, OPTIMISTIC_LOCK)
    }

    /// Makes a 409: the claim of the write (`unit@epoch`) is not the current one. Defined by Oarlock; see `is_stale_owner`.
    #[must_use]
    pub fn stale_owner(resource: &GroupResource, name: &str, claim: impl fmt::Display) -> Self {
        Self::conflict(resource, name, format!("{claim} is not the current assignment")).with_cause(
            cause::STALE_OWNER,
            claim.to_string(),
            "",
        )
    }

    /// Makes a 409: a server-side apply sets fields of other managers; one cause per field and manager.
    #[must_use]
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        let mut status = Self::failure(409, Reason::Conflict, message.into());
        status.details = Some(Box::new(Details { causes, ..Details::default() }));
        status
    }

    /// Makes a 422: the object violates validation rules.
    #[must_use]
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let what = format!("{kind} {} is invalid", quote(name));
        let message = if errors.is_empty() { what } else { format!("{what}: {}", aggregate(errors)) };
        let mut status = Self::failure(422, Reason::Invalid, message);
        status.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: to_causes(errors),
            ..Details::default()
        }));
        status
    }

    /// Makes a 403: `why` states the caller and the forbidden action. An empty resource or name shortens the text.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::failure(403, Reason::Forbidden, message).about(resource, name)
    }

    /// Makes a 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message.into())
    }

    /// Makes a 401. Upstream's server answers with the message `Unauthorized`.
    #[must_use]
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::failure(401, Reason::Unauthorized, message.into())
    }

    /// Makes a 410 Expired: the revision or continue token is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message.into())
    }

    /// Makes a 410 Expired for a watch from `requested` when `oldest` is the first revision still available.
    #[must_use]
    pub fn too_old_resource_version(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// Makes a 410 Gone.
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Gone, message.into())
    }

    /// Makes a 504: the request timed out; the text gets upstream's `Timeout: ` prefix.
    #[must_use]
    pub fn timeout(message: impl fmt::Display, retry_after: u32) -> Self {
        Self::failure(504, Reason::Timeout, format!("Timeout: {message}")).retry(retry_after)
    }

    /// Makes a 504: the requested revision is ahead of the server's (upstream `storage.NewTooLargeResourceVersionError`).
    #[must_use]
    pub fn resource_version_too_large(requested: u64, current: u64, retry_after: u32) -> Self {
        Self::timeout(format!("Too large resource version: {requested}, current: {current}"), retry_after).with_cause(
            cause::RESOURCE_VERSION_TOO_LARGE,
            "Too large resource version",
            "",
        )
    }

    /// Makes a 500 ServerTimeout: `operation` on `resource` could not be completed now.
    #[must_use]
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::failure(500, Reason::ServerTimeout, message).about(resource, operation).retry(retry_after)
    }

    /// Makes a 429: the client may retry after `retry_after` seconds.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::failure(429, Reason::TooManyRequests, message.into()).retry(retry_after)
    }

    /// Makes a 500: an internal error of the server.
    #[must_use]
    pub fn internal_error(error: impl fmt::Display) -> Self {
        let error = error.to_string();
        Self::failure(500, Reason::InternalError, format!("Internal error occurred: {error}")).with_cause("", error, "")
    }

    /// Makes a 500 without a reason: an error that upstream passes on unchanged.
    #[must_use]
    pub fn unexpected(error: impl fmt::Display) -> Self {
        Self::failure(500, Reason::Unknown, error.to_string())
    }

    /// Makes the answer of upstream's router to a request without a route: 404, 405, 406 or 415; `text` is shown for the last two.
    #[must_use]
    pub fn not_routed(code: u16, text: &str) -> Self {
        Self::generic_server_response(code, "", &GroupResource::default(), "", text, 0, false)
    }

    /// Makes a 405: the resource does not support the verb.
    #[must_use]
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Self::failure(405, Reason::MethodNotAllowed, message).about(resource, "")
    }

    /// Makes a 406: the server supports none of the types that the client accepts; `accepted` lists the supported types.
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(406, Reason::NotAcceptable, message)
    }

    /// Makes a 415: the type of the body is not one of `accepted`.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// Makes a 413: the body is larger than the limit; the text gets upstream's prefix.
    #[must_use]
    pub fn request_too_large(message: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {message}");
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// Makes a 503.
    #[must_use]
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message.into())
    }

    /// Makes the status for an HTTP answer with `code` whose body is no Status (upstream `NewGenericServerResponse`).
    ///
    /// `server_message` is the start of the body; `verb` the HTTP method. With `unexpected` the start of the body is added as a cause.
    #[must_use]
    pub fn generic_server_response(
        code: u16,
        verb: &str,
        resource: &GroupResource,
        name: &str,
        server_message: &str,
        retry_after: u32,
        unexpected: bool,
    ) -> Self {
        let (reason, mut message) = generic_words(code, verb, server_message);
        let verb = verb.to_ascii_lowercase();
        if !resource.is_empty() && !name.is_empty() {
            message = format!("{message} ({verb} {resource} {name})");
        } else if !resource.is_empty() {
            message = format!("{message} ({verb} {resource})");
        }
        let status = Self::failure(code, reason, message).about(resource, name).retry(retry_after);
        if unexpected { status.with_cause(cause::UNEXPECTED_SERVER_RESPONSE, server_message, "") } else { status }
    }

    /// Makes a failure with a code and reason that no other constructor covers.
    #[must_use]
    pub fn custom(code: u16, reason: impl Into<CompactString>, message: impl Into<String>) -> Self {
        Self::failure(code, Reason::from_word(&reason.into()), message.into())
    }
}

fn generic_words(code: u16, verb: &str, server: &str) -> (Reason, String) {
    let (reason, text) = match code {
        409 if verb == "POST" => (Reason::AlreadyExists, "the server reported a conflict"),
        409 => (Reason::Conflict, "the server reported a conflict"),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
        401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => (Reason::Forbidden, server),
        406 if server.is_empty() || server == "unknown" => {
            (Reason::NotAcceptable, "the server was unable to respond with a content type that the client supports")
        }
        406 => (Reason::NotAcceptable, server),
        415 => (Reason::UnsupportedMediaType, server),
        405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"),
        422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => (
            Reason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => {
            (Reason::TooManyRequests, "the server has received too many requests and has asked us to try again later")
        }
        500.. => {
            let text = format!("an error on the server ({}) has prevented the request from succeeding", quote(server));
            return (Reason::InternalError, text);
        }
        _ => {
            let text = format!("the server responded with the status code {code} but did not return more information");
            return (Reason::Unknown, text);
        }
    };
    (reason, text.to_owned())
}

//! Options of the verbs (upstream `metav1.GetOptions`, `ListOptions`, `DeleteOptions`, …) as typed values.

use std::time::Duration;

use oarlock_meta::{FieldSelector, LabelSelector, Revision};
use oarlock_schema::Str;

/// Options of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Minimum revision; `None` asks for the most recent state, `Some(ZERO)` for whatever the server has in its cache.
    pub resource_version: Option<Revision>,
}

/// How a list interprets `resource_version` (upstream `metav1.ResourceVersionMatch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The revision `resource_version` or any later one.
    NotOlderThan,
    /// Exactly the revision `resource_version`.
    Exact,
}

impl VersionMatch {
    /// Returns the value in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotOlderThan => "NotOlderThan",
            Self::Exact => "Exact",
        }
    }
}

/// Options of lists and watches. The default asks for all objects, the most recent state and one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Selects objects by labels.
    pub label_selector: LabelSelector,
    /// Selects objects by fields.
    pub field_selector: FieldSelector,
    /// List: see [`VersionMatch`]. Watch: events after this revision; `None` and zero begin with the current objects.
    pub resource_version: Option<Revision>,
    /// Interpretation of `resource_version`. Forbidden on a watch without `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// Items per page; 0 means all.
    pub limit: u64,
    /// Token from the previous page; empty for the first page.
    pub continue_token: Str,
    /// Watch: begin with the current objects as `Added`, followed by a bookmark (KEP-3157).
    pub send_initial_events: Option<bool>,
    /// Watch: the server may send bookmarks.
    pub allow_bookmarks: bool,
    /// Watch: time after which the server ends the stream; sent in whole seconds.
    pub timeout: Option<Duration>,
}

impl ListOptions {
    /// Options that select by labels.
    #[must_use]
    pub fn labels(selector: LabelSelector) -> Self {
        Self { label_selector: selector, ..Self::default() }
    }

    /// Options that select by fields.
    #[must_use]
    pub fn fields(selector: FieldSelector) -> Self {
        Self { field_selector: selector, ..Self::default() }
    }
}

/// How the server treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// The server's default (`Warn` upstream).
    #[default]
    Unset,
    /// Drops such fields silently.
    Ignore,
    /// Drops such fields with a warning.
    Warn,
    /// Refuses the request.
    Strict,
}

impl FieldValidation {
    /// Returns the value in the API, empty for [`FieldValidation::Unset`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// Options of creates, updates and patches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the server runs all steps but stores nothing (`dryRun=All`).
    pub dry_run: bool,
    /// Field manager; empty means derived from the transport's user agent. Required for apply.
    pub field_manager: Str,
    /// Treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Apply only: takes fields over from other managers. The server refuses the option on other patches.
    pub force: bool,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are kept.
    Orphan,
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
}

impl Propagation {
    /// Returns the value in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }
}

/// Options of deletes and evictions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Grace period in seconds; `None` means the object's own.
    pub grace_period_seconds: Option<i64>,
    /// Propagation to dependents; `None` means the kind's default.
    pub propagation: Option<Propagation>,
    /// Required uid; otherwise 409.
    pub uid: Option<Str>,
    /// Required revision; otherwise 409.
    pub resource_version: Option<Revision>,
    /// Whether the server runs all steps but deletes nothing.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Options that delete the object only while it has this uid.
    #[must_use]
    pub fn uid(uid: impl Into<Str>) -> Self {
        Self { uid: Some(uid.into()), ..Self::default() }
    }

    /// Returns the options with a grace period.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }

    /// Returns the options with a propagation policy.
    #[must_use]
    pub fn propagate(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }
}

/// The four patch formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902, a list of operations.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge; built-in kinds only.
    Strategic,
    /// Server-side apply, a partial object in JSON (or YAML).
    Apply,
}

impl PatchType {
    /// Returns the media type of the body.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

//! The options of the verbs (upstream `metav1.GetOptions`, `ListOptions`, `DeleteOptions`, …), as typed values.

use std::time::Duration;

use oarlock_meta::{FieldSelector, LabelSelector, Revision};
use oarlock_schema::Str;

/// Options of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Not older than this; `None` is the most recent state, `Some(ZERO)` whatever the server has at hand.
    pub resource_version: Option<Revision>,
}

/// How `resource_version` of a list is meant (upstream `metav1.ResourceVersionMatch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// That revision or a later one.
    NotOlderThan,
    /// That revision.
    Exact,
}

impl VersionMatch {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotOlderThan => "NotOlderThan",
            Self::Exact => "Exact",
        }
    }
}

/// Options of lists and watches. The default is everything, most recent state, one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Which objects, by labels.
    pub label_selector: LabelSelector,
    /// Which objects, by fields.
    pub field_selector: FieldSelector,
    /// List: see [`VersionMatch`]. Watch: events after this revision; `None` and zero begin with the current objects.
    pub resource_version: Option<Revision>,
    /// How `resource_version` is meant. Forbidden on a watch without `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// Items per answer; 0 is all.
    pub limit: u64,
    /// Where the last answer ended; empty at the start.
    pub continue_token: Str,
    /// Watch: begin with the current objects as `Added`, then a bookmark that ends them (KEP-3157).
    pub send_initial_events: Option<bool>,
    /// Watch: the server may send bookmarks.
    pub allow_bookmarks: bool,
    /// Watch: the server ends the stream after this time; whole seconds count.
    pub timeout: Option<Duration>,
}

impl ListOptions {
    /// Objects that a label selector selects.
    #[must_use]
    pub fn labels(selector: LabelSelector) -> Self {
        Self { label_selector: selector, ..Self::default() }
    }

    /// Objects that a field selector selects.
    #[must_use]
    pub fn fields(selector: FieldSelector) -> Self {
        Self { field_selector: selector, ..Self::default() }
    }
}

/// What the server does about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Not said; the server's default (`Warn` upstream) holds.
    #[default]
    Unset,
    /// Drops them silently.
    Ignore,
    /// Drops them with a warning.
    Warn,
    /// Refuses the request.
    Strict,
}

impl FieldValidation {
    /// The word on the wire, empty for [`FieldValidation::Unset`].
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
    /// Do everything but keep the result (`dryRun=All`).
    pub dry_run: bool,
    /// Who owns the fields that are set; empty: derived from the transport's user agent. Required for apply.
    pub field_manager: Str,
    /// What happens to unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Apply only: take fields over from other managers. Apply patches alone may say so.
    pub force: bool,
}

/// Which objects that depend on a deleted one are deleted too, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// None.
    Orphan,
    /// Afterwards.
    Background,
    /// Before.
    Foreground,
}

impl Propagation {
    /// The word on the wire.
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
    /// Seconds between the wish and the deed; `None` is the object's own.
    pub grace_period_seconds: Option<i64>,
    /// What becomes of dependents; `None` is the kind's default.
    pub propagation: Option<Propagation>,
    /// Only this incarnation of the name; otherwise 409.
    pub uid: Option<Str>,
    /// Only this revision; otherwise 409.
    pub resource_version: Option<Revision>,
    /// Do everything but delete.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Deletes the object only if it is still this incarnation.
    #[must_use]
    pub fn uid(uid: impl Into<Str>) -> Self {
        Self { uid: Some(uid.into()), ..Self::default() }
    }

    /// The same with a grace period.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }

    /// The same with a propagation.
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
    /// The media type of the body.
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

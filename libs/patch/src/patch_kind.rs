//! The content types of classic patches.

/// The classic patch types, one per content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// `application/json-patch+json` (RFC 6902).
    Json,
    /// `application/merge-patch+json` (RFC 7386).
    Merge,
    /// `application/strategic-merge-patch+json`. Requests for custom resources with this type are answered with 415.
    Strategic,
}

//! The names of the methods that members answer.

/// The method by which a member confirms that it is present.
pub(crate) const HERE: &str = "here";
/// The method that returns a member's traffic statistics.
pub(crate) const INSPECT: &str = "inspect";
/// The service method that returns a member's roster.
pub(crate) const MEMBERS: &str = "members";
/// The method that returns a member's actors.
pub(crate) const ACTORS: &str = "actors";
/// The method that returns the spans that a member keeps of some traces.
pub(crate) const SPANS: &str = "spans";

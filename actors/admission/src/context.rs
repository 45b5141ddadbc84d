//! What a request carries through the stages beside its object.

use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_schema::Str;
use oarlock_storage::Append;

use crate::turns::Turn;

/// The context of one request: what holds for all of its stages, and what they leave for the server. Both halves of the chain get the same one.
#[derive(Debug)]
pub struct RequestContext {
    /// Names the request in the audit log; `None` for a request that is not audited.
    pub audit_id: Option<Str>,
    /// When the request must be answered.
    pub deadline: Instant,
    /// Nothing of the request is kept.
    pub dry_run: bool,
    /// Texts for `Warning` headers, also of a request that is refused.
    pub warnings: Vec<String>,
    /// Audit annotations: key and value.
    pub annotations: Vec<(String, String)>,
    /// Writes that must be committed together with the object, or not at all (quota usage).
    pub together: Vec<Append>,
    /// Turns that last until the write of the request has ended.
    pub held: Vec<Turn>,
}

impl RequestContext {
    /// The context of a request that no stage has seen yet.
    #[must_use]
    pub const fn new(deadline: Instant, dry_run: bool) -> Self {
        Self {
            audit_id: None,
            deadline,
            dry_run,
            warnings: Vec::new(),
            annotations: Vec::new(),
            together: Vec::new(),
            held: Vec::new(),
        }
    }

    /// When a wait of at most `longest` ends: no later than the request.
    #[must_use]
    pub fn until(&self, longest: Duration) -> Instant {
        self.deadline.min(clock::after(longest))
    }
}

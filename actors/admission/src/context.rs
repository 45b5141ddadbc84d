//! The state of a request that all stages share, besides its object.

use std::time::Duration;

use oarlock_runtime::{Instant, clock};
use oarlock_seeded_bug::seeded_bug;
use oarlock_storage::Append;

use crate::turns::QueueGuard;

/// The shared state of one request: input for all stages, and results for the server. Both halves of the chain get the same one.
#[derive(Debug)]
pub struct RequestContext {
    /// The deadline of the request.
    pub deadline: Instant,
    /// Longest wait for anything that need not come, such as a turn; shorter for a request that occupies what others wait for.
    pub max_wait: Duration,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
    /// Texts for `Warning` headers, also on refused requests.
    pub warnings: Vec<String>,
    /// Audit annotations: key and value.
    pub annotations: Vec<(String, String)>,
    /// Writes to be committed atomically with the object (quota usage).
    pub together: Vec<Append>,
    /// Turns to be held until the write of the request has ended.
    pub held: Vec<QueueGuard>,
}

impl RequestContext {
    /// Creates the context of a new request.
    #[must_use]
    pub const fn new(deadline: Instant, dry_run: bool) -> Self {
        Self {
            deadline,
            max_wait: Duration::MAX,
            dry_run,
            warnings: Vec::new(),
            annotations: Vec::new(),
            together: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Returns the deadline of a wait of at most `longest`, bounded by the request's limits. A request that holds a turn does not wait at all: requests
    /// of other users may wait for that turn.
    #[must_use]
    pub fn until(&self, longest: Duration) -> Instant {
        let waits = self.held.is_empty() || seeded_bug!("turns_wait_for_turns");
        let longest = if waits { longest.min(self.max_wait) } else { Duration::ZERO };
        self.deadline.min(clock::after(longest))
    }
}

//! The identity behind a call, and the warnings that accompany the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oarlock_auth::UserInfo;
use oarlock_client::Fence;
use oarlock_runtime::Instant;
use oarlock_schema::Str;
use oarlock_seeded_bug::seeded_bug;
use oarlock_telemetry::traces::opentelemetry::trace::SpanContext;
use parking_lot::Mutex;

use crate::http::audit_id::AuditId;
use crate::warnings::Warnings;

/// The authenticated caller of one call.
#[derive(Debug)]
pub struct Caller {
    /// The user's identity, after impersonation.
    pub user: Arc<UserInfo>,
    /// The user against whose share of the limits the call counts; the same user, unless the client impersonates another.
    pub counted: Arc<UserInfo>,
    /// `User-Agent` of the client. The field manager is derived from it when the request names none.
    pub agent: Str,
    /// Time by which the call must be answered.
    pub deadline: Instant,
    /// ID of the request in the audit log; `None` for a call inside the process.
    pub(crate) audit_id: Option<AuditId>,
    /// The claim to a unit of work under which the caller writes. The commit compares it with the unit's Assignment.
    pub fence: Option<Fence>,
    warnings: Mutex<Warnings>,
    changes: Mutex<Vec<SpanContext>>,
    /// Whether the call runs in one of the few lanes of large requests.
    in_lane: AtomicBool,
}

/// Longest wait of a call in a lane for anything that need not come, a turn or an account: large requests of other users wait for the lane.
const MAX_WAIT_IN_LANE: Duration = Duration::from_millis(500);

/// The most changes that a span of a request is linked with; a deletion of a collection makes any number.
const MAX_CHANGES: usize = 32;

impl Caller {
    /// Creates a caller without warnings and without a claim.
    #[must_use]
    pub fn new(user: Arc<UserInfo>, agent: Str, deadline: Instant) -> Self {
        let counted = Arc::clone(&user);
        let (warnings, changes, in_lane) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self { user, counted, agent, deadline, audit_id: None, fence: None, warnings, changes, in_lane }
    }

    /// Records that the call runs in a lane of large requests from now on.
    pub(crate) fn enter_lane(&self) {
        self.in_lane.store(true, Ordering::Relaxed);
    }

    /// Returns the longest wait of the call for anything that need not come.
    pub(crate) fn max_wait(&self) -> Duration {
        let waits = !self.in_lane.load(Ordering::Relaxed) || seeded_bug!("lanes_wait_for_turns");
        if waits { Duration::MAX } else { MAX_WAIT_IN_LANE }
    }

    /// Adds a text for a `Warning: 299` header, unless it was added before or the answer has no room for it.
    pub fn warn(&self, text: String) {
        self.warnings.lock().add(text);
    }

    /// Removes and returns the warnings.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock()).into_texts()
    }

    /// Notes the root of a change that the call has made, for the span of the request.
    pub(crate) fn changed(&self, change: SpanContext) {
        let mut changes = self.changes.lock();
        if changes.len() < MAX_CHANGES {
            changes.push(change);
        }
    }

    /// Removes and returns the roots of the first changes that the call has made.
    pub(crate) fn take_changes(&self) -> Vec<SpanContext> {
        std::mem::take(&mut *self.changes.lock())
    }

    /// Returns the field manager of a write (upstream: `managerOrUserAgent`): the one that the request names, otherwise the user agent up to its
    /// first slash.
    #[must_use]
    pub fn manager<'a>(&'a self, named: &'a str) -> &'a str {
        const MAX: usize = 128;
        if !named.is_empty() {
            return named;
        }
        let agent = self.agent.split('/').next().unwrap_or("");
        let cut = agent.floor_char_boundary(MAX);
        match agent.get(..cut) {
            Some("") | None => "unknown",
            Some(agent) => agent,
        }
    }
}

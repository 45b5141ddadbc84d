//! The clock of load tests.

use std::time::Instant;

/// Real time: a load test measures nothing else.
#[expect(clippy::disallowed_methods, reason = "a load test measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

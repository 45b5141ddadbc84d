//! Waiting for conditions.

use std::time::{Duration, Instant};

/// Far more than anything here takes: a machine may be busy. It bounds a hang and is no measurement.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until `look` finds something.
///
/// # Panics
/// When it found nothing within [`PATIENCE`]; the text names `what` and the last thing seen.
pub fn eventually<T, E: std::fmt::Display>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Deadline::after(PATIENCE);
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(!deadline.passed(), "not within {PATIENCE:?}: {what}; last seen: {seen}"),
        }
        pause();
    }
}

/// Lets others run for a moment, between two looks at a condition.
#[expect(clippy::disallowed_methods, reason = "tests watch a real process in real time")]
pub fn pause() {
    std::thread::sleep(PAUSE);
}

/// A moment that ends a wait.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "tests watch a real process in real time")]
    pub fn after(patience: Duration) -> Self {
        Self(Instant::now() + patience)
    }

    /// Whether it is over.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "tests watch a real process in real time")]
    pub fn passed(self) -> bool {
        Instant::now() >= self.0
    }
}

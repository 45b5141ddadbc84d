//! Waiting for conditions.
//!
//! A wait fails because progress has stopped, never because a machine is slow. A wait for one condition is limited by [`STEP_TIMEOUT`] ([`eventually`]); a wait for work of many
//! steps gets that limit anew after each step ([`gradually`], [`step`], [`Progress`]).

use std::fmt::{self, Display};
use std::time::Duration;

use tokio::time::{Instant, timeout};

/// Limit of a wait for one step, far above what any step takes on a slow and busy machine. The limit detects hangs and measures nothing.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Pause between two checks of a condition.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Repeats `look` until it returns `Ok`.
///
/// # Panics
/// When `look` has not succeeded within [`STEP_TIMEOUT`]; the message names `what` and the last error.
pub fn eventually<T, E: Display>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Deadline::after(STEP_TIMEOUT);
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(!deadline.passed(), "not within {STEP_TIMEOUT:?}: {what}; last seen: {seen}"),
        }
        pause();
    }
}

/// Repeats `look` until it returns `Ok`, for work of many steps; an error reports the progress so far (see [`Progress`]).
///
/// # Panics
/// When the progress does not change for [`STEP_TIMEOUT`]; the message names `what` and the last progress.
pub fn gradually<T, M: PartialEq + Display>(what: &str, mut look: impl FnMut() -> Result<T, M>) -> T {
    let mut progress = Progress::default();
    loop {
        match look() {
            Ok(found) => return found,
            Err(reached) => assert!(!progress.stalled(reached), "{what}: {progress}"),
        }
        pause();
    }
}

/// Awaits one step of many, each with the limit [`STEP_TIMEOUT`].
///
/// # Panics
/// When the step does not finish in time; the message names `what`: which step of how many.
pub async fn step<T>(what: &str, step: impl Future<Output = T>) -> T {
    step_within(STEP_TIMEOUT, what, step).await
}

async fn step_within<T>(patience: Duration, what: &str, step: impl Future<Output = T>) -> T {
    timeout(patience, step).await.unwrap_or_else(|_| panic!("{what}: nothing for {patience:?}"))
}

/// Sleeps between two checks of a condition.
#[expect(clippy::disallowed_methods, reason = "tests watch a real process in real time")]
pub fn pause() {
    std::thread::sleep(CHECK_INTERVAL);
}

/// Progress of work of many steps, with the time since its last change. Each change restarts the time limit, so only a standstill fails, however much work there is.
///
/// The measured value must have a final state, or a wait may never end: a counter must stop at its target, and a value that rises and falls must be measured by its best so
/// far.
#[derive(Debug)]
pub struct Progress<M> {
    patience: Duration,
    last: Option<Last<M>>,
}

/// Latest value of a progress, since when it has that value, and for how long the value has not changed.
#[derive(Debug)]
struct Last<M> {
    reached: M,
    since: Instant,
    still: Duration,
}

impl<M> Default for Progress<M> {
    /// With the limit [`STEP_TIMEOUT`].
    fn default() -> Self {
        Self::with_patience(STEP_TIMEOUT)
    }
}

impl<M> Progress<M> {
    /// Creates a progress with this limit.
    #[must_use]
    pub fn with_patience(patience: Duration) -> Self {
        Self { patience, last: None }
    }
}

impl<M: PartialEq> Progress<M> {
    /// Whether the progress has stood still for the limit. The time begins with the first call.
    pub fn stalled(&mut self, reached: M) -> bool {
        self.stalled_at(Instant::now(), reached)
    }

    fn stalled_at(&mut self, now: Instant, reached: M) -> bool {
        match &mut self.last {
            Some(last) if last.reached == reached => {
                last.still = now - last.since;
                last.still >= self.patience
            }
            last => {
                *last = Some(Last { reached, since: now, still: Duration::ZERO });
                false
            }
        }
    }
}

/// Prints the progress and the time since its last change.
impl<M: Display> Display for Progress<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.last {
            Some(Last { reached, still, .. }) => write!(f, "it has stood still for {still:.0?} at {reached}"),
            None => write!(f, "it has not begun"),
        }
    }
}

/// Point in time that ends a wait.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline this far in the future.
    #[must_use]
    pub fn after(patience: Duration) -> Self {
        Self(Instant::now() + patience)
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn passed(self) -> bool {
        Instant::now() >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn each_step_begins_the_patience_anew_however_many_there_are() {
        let (mut progress, start) = (Progress::with_patience(10 * S), Instant::now());
        for number in 0..1000 {
            assert!(!progress.stalled_at(start + number * 9 * S, number), "{progress}");
        }
        let last = start + 999 * 9 * S;
        assert!(!progress.stalled_at(last + 9 * S, 999), "{progress}");
        assert!(progress.stalled_at(last + 10 * S, 999));
        assert_eq!(progress.to_string(), "it has stood still for 10s at 999");
        assert!(!progress.stalled_at(last + 11 * S, 1000), "it goes on after all");
    }

    #[test]
    fn time_begins_with_the_first_look() {
        let mut progress = Progress::with_patience(Duration::ZERO);
        assert_eq!(progress.to_string(), "it has not begun");
        assert!(!progress.stalled("here"));
        assert!(progress.stalled("here"));
    }

    #[test]
    fn who_looks_is_given_what_comes_bit_by_bit() {
        let mut left = 3;
        let found = gradually("nothing is left", || {
            left -= 1;
            if left == 0 { Ok("it is done") } else { Err(left) }
        });
        assert_eq!(found, "it is done");
    }

    #[test]
    fn a_step_that_does_not_come_is_named() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(step("one", std::future::ready(1))), 1);
        let never = step_within(Duration::from_millis(1), "writer 3 of 200", std::future::pending::<()>());
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(never))).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), "writer 3 of 200: nothing for 1ms");
    }
}

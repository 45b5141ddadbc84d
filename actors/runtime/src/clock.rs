//! Time: monotonic instants for deadlines, wall time for users. The project reads clocks only through this module.
//!
//! In production the functions read the machine's clocks. In a [`Universe`](crate::Universe) the monotonic clock is tokio's paused one, which jumps
//! to the next timer when nothing can run, and the wall clock is a seeded base plus the elapsed virtual time.
//!
//! Invariant: within one process (or one universe) [`now`] never goes back. [`wall`] may, when the machine's clock is set (in a universe: [`set`]),
//! so no decision about order or deadlines uses it.

use std::cell::Cell;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime};

use futures::TryFutureExt;
use jiff::{SignedDuration, Timestamp};

/// An upper bound of every wait in the project, small enough that adding it to an instant cannot overflow.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

thread_local! {
    static CLOCK: Cell<Clock> = const { Cell::new(Clock::real()) };
}

/// A point in monotonic time, for deadlines and durations; nanosecond resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(tokio::time::Instant);

impl Instant {
    /// Returns the time since this instant; zero when it lies in the future.
    pub fn elapsed(self) -> Duration {
        now() - self
    }

    /// Returns the time until this instant; zero when it has passed.
    pub fn remaining(self) -> Duration {
        self - now()
    }

    /// Whether this instant has been reached.
    pub fn passed(self) -> bool {
        now() >= self
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds `rhs`, shortened to 30 years so that the sum cannot overflow.
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.checked_add(rhs.min(FOREVER)).unwrap_or(self.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    /// Returns the time from `rhs` to `self`; zero when `rhs` is the later one.
    fn sub(self, rhs: Instant) -> Duration {
        self.0.saturating_duration_since(rhs.0)
    }
}

impl From<Instant> for tokio::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

impl From<tokio::time::Instant> for Instant {
    fn from(instant: tokio::time::Instant) -> Self {
        Self(instant)
    }
}

/// The error of a deadline that passed before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deadline exceeded")]
pub struct Elapsed;

/// The wall clock of a thread. The monotonic clock follows the tokio runtime.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Option<(Timestamp, Instant)>,
}

impl Clock {
    /// Returns the machine's clock.
    pub const fn real() -> Self {
        Self { base: None }
    }

    /// Returns a wall clock that reads `wall` now and advances with the runtime's monotonic clock only.
    pub fn starting_at(wall: Timestamp) -> Self {
        Self { base: Some((wall, now())) }
    }

    /// Returns the monotonic time.
    pub fn now(&self) -> Instant {
        now()
    }

    /// Returns the wall time, UTC, nanosecond resolution.
    pub fn wall(&self) -> Timestamp {
        match self.base {
            None => Timestamp::now(),
            Some((base, start)) => base.checked_add(now() - start).unwrap_or(Timestamp::MAX),
        }
    }

    /// Makes this the clock of the current thread; returns the previous one.
    pub fn install(self) -> Self {
        CLOCK.replace(self)
    }
}

/// Returns the monotonic time. Costs about 25 ns.
pub fn now() -> Instant {
    Instant(tokio::time::Instant::now())
}

/// Returns the wall time, UTC: for object timestamps, certificates and logs, never for deadlines.
pub fn wall() -> Timestamp {
    CLOCK.get().wall()
}

/// Returns the wall time of a past instant, if nobody has set the clock since: for spans and other records of when something began.
pub fn wall_at(instant: Instant) -> SystemTime {
    let now = wall();
    now.checked_sub(SignedDuration::try_from(instant.elapsed()).unwrap_or_default()).unwrap_or(now).into()
}

/// Returns the wall times of the beginning of something and of its end, which has just been, if nobody has set the clock since the beginning.
pub fn walls(began: Instant, ended: Instant) -> (SystemTime, SystemTime) {
    let now = SystemTime::from(wall());
    (now.checked_sub(ended - began).unwrap_or(now), now)
}

/// Moves the wall clock of this universe by so many seconds, as an operator may set a machine's clock. No effect outside a universe.
pub fn set(by: i64) {
    let set = |base: Timestamp| base.checked_add(SignedDuration::from_secs(by)).unwrap_or(base);
    let base = CLOCK.get().base.map(|(base, start)| (set(base), start));
    Clock { base }.install();
}

/// Returns the deadline `duration` from now.
pub fn after(duration: Duration) -> Instant {
    now() + duration
}

/// Returns a deadline that is never reached in practice. Only for waits that another event ends.
pub fn never() -> Instant {
    now() + FOREVER
}

/// Waits for `duration`.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits until `deadline`; returns at once when it has passed.
pub async fn sleep_until(deadline: Instant) {
    tokio::time::sleep_until(deadline.0).await;
}

/// Runs `future` until `duration` after this call, then drops it.
///
/// # Errors
/// [`Elapsed`] when `future` was not ready in time. A future that is ready at its first poll wins over a zero duration.
pub fn timeout<F: Future>(duration: Duration, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    timeout_at(after(duration), future)
}

/// Runs `future` until `deadline`, then drops it.
///
/// # Errors
/// [`Elapsed`] when `future` was not ready in time.
// No `async fn`: it would hold `future` twice, as its argument and as the awaited value.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    tokio::time::timeout_at(deadline.0, future).map_err(|_| Elapsed)
}

/// Ticks at a fixed period; the first tick comes one period after the call. A late tick delays the following ones, so that ticks never come in
/// bursts.
pub fn interval(period: Duration) -> Interval {
    let period = period.max(Duration::from_millis(1));
    let mut inner = tokio::time::interval_at((now() + period).0, period);
    inner.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    Interval { inner }
}

/// A timer with a fixed period, see [`interval`].
#[derive(Debug)]
pub struct Interval {
    inner: tokio::time::Interval,
}

impl Interval {
    /// Waits for the next tick. Cancel safe.
    pub async fn tick(&mut self) -> Instant {
        Instant(self.inner.tick().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_wall_time_advances_with_virtual_monotonic_time_only() {
        let base = Timestamp::from_second(1_700_000_000).unwrap();
        let before = Clock::starting_at(base).install();
        assert_eq!(wall(), base);
        sleep(Duration::from_secs(90)).await;
        assert_eq!(wall().as_second(), 1_700_000_090);
        let then = now();
        assert_eq!(wall_at(then), SystemTime::from(wall()));
        sleep(Duration::from_millis(2500)).await;
        assert_eq!(wall_at(then), SystemTime::from(base) + Duration::from_secs(90));
        assert_eq!(walls(then, now()), (wall_at(then), wall().into()));
        set(-3600);
        assert_eq!((wall().as_second(), now()), (1_699_996_492, then + Duration::from_millis(2500)));
        before.install();
        assert!(wall().as_second() > 1_700_000_090);
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_drops_what_is_late_and_passes_what_is_ready() {
        assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7));
        assert_eq!(timeout(Duration::from_secs(1), std::future::pending::<()>()).await, Err(Elapsed));
    }

    #[tokio::test(start_paused = true)]
    async fn arithmetic_saturates_instead_of_panicking() {
        let start = now();
        assert_eq!(start - (start + Duration::from_secs(1)), Duration::ZERO);
        assert!(start + Duration::MAX > start);
        assert!(!never().passed());
        assert!(start.passed());
    }

    #[tokio::test(start_paused = true)]
    async fn interval_never_bursts_after_a_missed_tick() {
        let mut ticks = interval(Duration::from_secs(1));
        sleep(Duration::from_millis(3500)).await;
        let first = ticks.tick().await;
        let second = ticks.tick().await;
        assert!(second - first >= Duration::from_millis(500), "{:?}", second - first);
        let third = ticks.tick().await;
        assert_eq!(third - second, Duration::from_secs(1));
    }
}

//! A test universe: one thread, virtual time, seeded randomness and scheduling, and a record of all events.
//!
//! The same seed gives the same run: equal events, equal hash. When nothing can run, time jumps to the next timer, so a test of hours takes
//! milliseconds.

use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{self, Clock};
use crate::rng::Rng;
use crate::trace::{self, Event, Trace};

/// The environment variable that reduces a sweep to one seed.
pub const SEED_VARIABLE: &str = "OARLOCK_SEED";

/// The environment variable with the number of seeds of a threaded sweep, or their range: `700..1000`.
pub const SEEDS_VARIABLE: &str = "OARLOCK_SEEDS";

/// The environment variable that bounds the processor time of a threaded sweep, in seconds: after the bound no further seed is started, except the
/// first [`MIN_SEEDS`].
pub const SEED_BUDGET_VARIABLE: &str = "OARLOCK_SEED_BUDGET";

/// The least number of seeds of a threaded sweep. Fewer seeds are no evidence that a fault happens often enough.
pub const MIN_SEEDS: u64 = 24;

/// One in this many seeds of a threaded sweep runs twice, to check that the run is deterministic.
const SEEDS_PER_COMPARISON: u64 = 8;

/// The longest test, in virtual time. In a deadlock this is the only timer left, so time jumps to it and the test fails instead of hanging.
const LONGEST_TEST: Duration = Duration::from_secs(30 * 86_400);

/// The result of a run in a universe.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The value that the test's future returned.
    pub value: T,
    /// The hash of the events: equal for equal runs.
    pub hash: u64,
    /// The recorded events in their order.
    pub events: Vec<Event>,
    /// The virtual time that passed.
    pub elapsed: Duration,
}

/// A simulated world for one test: one thread, virtual time, seeded randomness and scheduling.
#[derive(Clone, Copy, Debug)]
pub struct Universe;

impl Universe {
    /// Runs `test` to its end in a new universe. Wall time starts at a seeded moment in 2026.
    ///
    /// # Panics
    /// When `test` panics, when an actor or a gated task panics without [`trace::expect_panic`], and when an expected panic does not happen. The
    /// message names the seed and the command that replays it.
    #[expect(clippy::panic, reason = "it fails the test that runs in it")]
    pub fn run<T, F: Future<Output = T>>(seed: u64, test: impl FnOnce() -> F) -> Outcome<T> {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("no runtime: {error}"),
        };
        let _entered = runtime.enter();
        let mut root = Rng::seeded(seed);
        let wall =
            Timestamp::from_second(1_767_225_600 + root.below(300 * 86_400) as i64).unwrap_or(Timestamp::UNIX_EPOCH);
        let _installed = Installed::new(Clock::starting_at(wall), root.fork(), Trace::new(root.fork()), seed);
        let began = clock::now();
        let Ok(value) = runtime.block_on(clock::timeout(LONGEST_TEST, test())) else {
            panic!("the test does not end: after {LONGEST_TEST:?} of virtual time it still waits for something");
        };
        let elapsed = began.elapsed();
        let Some(trace) = trace::install(None) else { panic!("the universe lost its record") };
        let unexpected: Vec<_> = trace.panics.iter().filter(|(who, _)| !trace.expected.contains(who)).collect();
        assert!(unexpected.is_empty(), "panicked unexpectedly: {unexpected:?}");
        let missing: Vec<_> =
            trace.expected.iter().filter(|who| !trace.panics.iter().any(|(panicked, _)| panicked == *who)).collect();
        assert!(missing.is_empty(), "expected to panic and did not: {missing:?}");
        Outcome { value, hash: trace.hash, events: trace.events, elapsed }
    }

    /// Runs `test` twice under each seed (or only under `$OARLOCK_SEED`), and checks that both runs recorded the same events. Returns the hash of
    /// every seed.
    ///
    /// # Panics
    /// As [`Universe::run`], when `$OARLOCK_SEED` is no number, and when the two runs of a seed differ; the message shows the first difference.
    pub fn sweep<F: Future<Output = ()>>(seeds: Range<u64>, test: impl Fn() -> F) -> Vec<u64> {
        only().unwrap_or(seeds).map(|seed| Self::run_twice(seed, &test).hash).collect()
    }

    /// Runs `test` under the seeds below `count` (or those of `$OARLOCK_SEEDS`), as far as `$OARLOCK_SEED_BUDGET` allows, with one universe at a time
    /// on each processor. For tests too long for [`Universe::sweep`]. One seed in eight, and a seed that runs alone, runs twice to check that only
    /// the seed decides. Returns the outcome of each seed, in order, without the events.
    ///
    /// # Panics
    /// As [`Universe::sweep`], and when `$OARLOCK_SEEDS` or `$OARLOCK_SEED_BUDGET` cannot be parsed; no seed is started after one that failed.
    #[expect(clippy::panic, reason = "it fails the test that runs in it")]
    pub fn sweep_threads<T: Send, F: Future<Output = T>>(
        count: u64,
        test: impl Fn(u64) -> F + Sync,
    ) -> Vec<(u64, Outcome<T>)> {
        let given = std::env::var(SEEDS_VARIABLE).map_or(Ok(0..count), |text| range(&text).ok_or(text));
        let given = given.unwrap_or_else(|text| {
            panic!("{SEEDS_VARIABLE}={text}: neither a number of seeds nor a range, as 700..1000")
        });
        let budget = std::env::var(SEED_BUDGET_VARIABLE).ok().map(|text| match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => panic!("{SEED_BUDGET_VARIABLE}={text}: not a number of seconds"),
        });
        Self::sweep_within(only().unwrap_or(given), budget, test)
    }

    fn sweep_within<T: Send, F: Future<Output = T>>(
        seeds: Range<u64>,
        budget: Option<Duration>,
        test: impl Fn(u64) -> F + Sync,
    ) -> Vec<(u64, Outcome<T>)> {
        let spent = AtomicU64::new(0);
        let next = AtomicU64::new(seeds.start);
        let work = || {
            let stop = StopOnDrop(&next);
            let mut done = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let spent_up =
                    budget.is_some_and(|budget| Duration::from_nanos(spent.load(Ordering::Relaxed)) >= budget);
                if !seeds.contains(&seed) || (spent_up && seed - seeds.start >= MIN_SEEDS) {
                    std::mem::forget(stop);
                    return done;
                }
                let test = || test(seed);
                let before = processor_time();
                let compared = (seed - seeds.start).is_multiple_of(SEEDS_PER_COMPARISON);
                let outcome = if compared { Self::run_twice(seed, &test) } else { Self::run(seed, test) };
                spent.fetch_add(processor_time().saturating_sub(before).as_nanos() as u64, Ordering::Relaxed);
                done.push((seed, Outcome { events: Vec::new(), ..outcome }));
            }
        };
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut all = std::thread::scope(|scope| {
            let start = || std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, work);
            let started: Vec<_> = (0..threads).filter_map(|_| start().ok()).collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect::<Vec<_>>()
        });
        all.sort_unstable_by_key(|(seed, _)| *seed);
        all
    }

    /// Whether something happened in enough of the `swept` seeds of a sweep of `count` seeds: in a tenth of them; or in any, when the budget allowed
    /// fewer than `count`, because a tenth of few seeds is too few to rely on.
    #[must_use]
    pub fn happened_enough(in_seeds: usize, swept: usize, count: u64) -> bool {
        if (swept as u64) < count { in_seeds > 0 } else { in_seeds * 10 >= swept }
    }

    fn run_twice<T, F: Future<Output = T>>(seed: u64, test: &impl Fn() -> F) -> Outcome<T> {
        let (first, second) = (Self::run(seed, test), Self::run(seed, test));
        let differ = first.events.iter().zip(&second.events).position(|(a, b)| a != b);
        let differ = differ
            .or((first.events.len() != second.events.len()).then_some(first.events.len().min(second.events.len())));
        if let Some(at) = differ {
            let show = |events: &[Event]| events.get(at).map_or_else(|| "nothing".to_owned(), ToString::to_string);
            let (one, two) = (show(&first.events), show(&second.events));
            assert_eq!(one, two, "seed {seed} is not deterministic: event {at} differs; {}", replay(seed));
        }
        assert_eq!(first.hash, second.hash, "seed {seed} is not deterministic");
        first
    }
}

/// Returns the processor time of the current thread. This is real time, not part of any universe.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Returns the range of the one seed that `$OARLOCK_SEED` selects, if set.
#[expect(clippy::panic, reason = "it fails the test that runs in it")]
fn only() -> Option<Range<u64>> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    let Ok(seed) = text.parse::<u64>() else { panic!("{SEED_VARIABLE}={text}: not a number") };
    Some(seed..seed + 1)
}

/// Parses `1000` or `700..1000`; an empty range is an error.
fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..").unwrap_or(("0", text));
    let seeds = from.parse().ok()?..to.parse().ok()?;
    (!seeds.is_empty()).then_some(seeds)
}

/// Stops all threads of a sweep from starting another seed when dropped.
struct StopOnDrop<'a>(&'a AtomicU64);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX / 2, Ordering::Relaxed);
    }
}

/// The universe installed on the current thread; removed on drop, also in a panic.
struct Installed {
    seed: u64,
    before: Option<(Clock, Rng)>,
}

impl Installed {
    fn new(clock: Clock, rng: Rng, trace: Trace, seed: u64) -> Self {
        trace::install(Some(trace));
        Self { seed, before: Some((clock.install(), rng.install())) }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        trace::install(None);
        if let Some((clock, rng)) = self.before.take() {
            clock.install();
            rng.install();
        }
        if std::thread::panicking() {
            use std::io::Write as _;
            // printed beside the panic's own message; without stderr nothing is lost
            let _ = writeln!(std::io::stderr(), "{}", replay(self.seed));
        }
    }
}

/// Returns the command that replays a seed. The test runner names the thread after the test.
fn replay(seed: u64) -> String {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("<test>");
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "<package>".to_owned());
    format!("replay with: {SEED_VARIABLE}={seed} cargo test -p {package} -- --exact {test}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MIN_SEEDS, Universe, range};

    #[test]
    fn a_sweep_ends_with_its_budget_and_shows_the_fewest_seeds_all_the_same() {
        let seeds = |budget| -> Vec<u64> {
            let swept = Universe::sweep_within(100..200, budget, |seed| async move { seed });
            swept.into_iter().map(|(_, outcome)| outcome.value).collect()
        };
        assert_eq!(seeds(Some(Duration::ZERO)), (100..100 + MIN_SEEDS).collect::<Vec<_>>());
        assert_eq!(seeds(Some(Duration::MAX)), (100..200).collect::<Vec<_>>());
        assert_eq!(seeds(None), (100..200).collect::<Vec<_>>());
    }

    #[test]
    fn what_a_whole_sweep_shows_in_a_tenth_of_its_seeds_a_short_one_shows_at_all() {
        let enough = |in_seeds, swept| Universe::happened_enough(in_seeds, swept, 200);
        assert!(enough(20, 200) && !enough(19, 200) && !enough(199, 2000));
        assert!(enough(1, 40) && !enough(0, 199));
    }

    #[test]
    fn seeds_are_a_number_or_a_range() {
        assert_eq!(range("1000"), Some(0..1000));
        assert_eq!(range("700..1000"), Some(700..1000));
        assert_eq!(["", "x", "7..", "..7", "7-9", "0", "9..7"].map(range), [const { None }; 7]);
    }
}

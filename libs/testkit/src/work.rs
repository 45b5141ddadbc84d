//! Checks that the work of a function grows no faster than its input.
//!
//! Wall time is not used. The kernel measures the CPU time of the test's thread (`CLOCK_THREAD_CPUTIME_ID`), which does not advance while the thread waits, and only the ratio
//! of two runs counts, the second with twice the input. Counters in the code would be exact but would miss work that nobody counts, such as memory moved by an insertion, or
//! the work of a dependency.
//!
//! A run that is too short to measure is not judged. A ratio that looks too large is measured again with doubled inputs: a quadratic function still costs four times as much,
//! while a page fault or other load on the machine does not recur.

use std::time::Duration;

/// The highest ratio that passes: slightly more than two, for a logarithm and for errors of measurement.
const MAX_RATIO: f64 = 2.5;

/// CPU time of the larger input below which a ratio is not judged.
const MIN_JUDGED_TIME: Duration = Duration::from_millis(8);

/// Measurements of a ratio that is too large before the check fails, each with doubled inputs.
const MAX_MEASUREMENTS: u32 = 3;

/// Returns the CPU time of the calling thread.
fn computed() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn cost<I, O>(input: &I, run: &impl Fn(&I) -> O) -> Duration {
    let before = computed();
    let done = std::hint::black_box(run(input));
    let cost = computed() - before;
    drop(done);
    cost
}

/// Measures how the work of `run` grows when the input built by `make` doubles from `n` items. Returns `None` when the work grows to little more than twice, otherwise the
/// measurement.
pub fn too_steep<I, O>(n: usize, make: impl Fn(usize) -> I, run: impl Fn(&I) -> O) -> Option<String> {
    let mut n = n;
    for look in 0..MAX_MEASUREMENTS {
        let (small, large) = (make(n), make(2 * n));
        // The first measurement uses one run each, since nearly all functions pass it.
        let runs = if look == 0 { 1 } else { 3 };
        let least = |input: &I| (0..runs).map(|_| cost(input, &run)).min().unwrap_or_default();
        let large = least(&large);
        if large < MIN_JUDGED_TIME {
            return None;
        }
        let small = least(&small);
        let growth = large.as_secs_f64() / small.as_secs_f64().max(1e-9);
        if growth <= MAX_RATIO {
            return None;
        }
        if look + 1 == MAX_MEASUREMENTS {
            return Some(format!("{n} items cost {small:?}, {} cost {large:?}: {growth:.1} times as much", 2 * n));
        }
        n *= 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::too_steep;

    #[test]
    fn a_search_at_each_item_is_found_and_a_look_up_is_not() {
        let make = |n: usize| (0..n as u64).collect::<Vec<_>>();
        let search =
            |items: &Vec<u64>| items.iter().enumerate().filter(|(i, x)| items.iter().take(*i).any(|y| y == *x)).count();
        assert!(too_steep(2_000, make, search).is_some());
        let look_up = |items: &Vec<u64>| {
            let mut seen = std::collections::BTreeSet::new();
            items.iter().filter(|x| !seen.insert(**x)).count()
        };
        assert_eq!(too_steep(50_000, make, look_up), None);
    }
}

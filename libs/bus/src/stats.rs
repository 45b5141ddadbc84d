//! Statistics of a bus per kind of subject: message counts (one atomic addition each) and times in buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::AskError;
use crate::proto::bus::v1 as wire;
use crate::proto::bus::v1::answer::Outcome;
use crate::subjects::Kind;

/// Number of buckets: four for each power of two of microseconds, up to half a day. A reported time is at most 25 % too high.
const BUCKETS: usize = 144;

/// Statistics of one bus.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    kinds: [Arc<KindStats>; Kind::ALL.len()],
}

/// Statistics of one kind of subject.
#[derive(Debug, Default)]
pub(crate) struct KindStats {
    pub(crate) sent: Traffic,
    pub(crate) heard: Traffic,
    overloads: AtomicU64,
    expired: AtomicU64,
    refused: AtomicU64,
    malformed: AtomicU64,
    lost: AtomicU64,
    failed: AtomicU64,
    /// Times from an ask to its outcome, measured at the asker.
    asked: Times,
    /// Times from an ask's arrival to its answer, measured at the receiver.
    answered: Times,
}

/// Messages and their bytes.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn count(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Stats {
    pub(crate) fn of(&self, kind: Kind) -> Arc<KindStats> {
        self.kinds.get(kind as usize).map(Arc::clone).unwrap_or_default()
    }

    /// Returns the current statistics; kinds without messages are left out.
    pub(crate) fn snapshot(&self) -> Vec<wire::KindStats> {
        let rows = Kind::ALL.into_iter().map(|kind| self.of(kind).snapshot(kind.row().name));
        rows.filter(|row| row.sent_messages + row.heard_messages + row.refused > 0).collect()
    }
}

impl KindStats {
    /// Counts the outcome of an ask, at the asker.
    pub(crate) fn asked<A>(&self, time: Duration, result: &Result<A, AskError>) {
        self.asked.record(time);
        match result {
            Ok(_) => {}
            Err(AskError::Overloaded { .. }) => add(&self.overloads),
            Err(AskError::Expired | AskError::Timeout) => add(&self.expired),
            Err(AskError::Denied(_)) => add(&self.refused),
            Err(AskError::Garbled(_) | AskError::Unproven(_)) => add(&self.malformed),
            Err(_) => add(&self.failed),
        }
    }

    /// Counts an answered ask, at the receiver.
    pub(crate) fn answered(&self, time: Duration) {
        self.answered.record(time);
    }

    /// Counts a declined ask, at the receiver.
    pub(crate) fn declined(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Overloaded(_) => add(&self.overloads),
            Outcome::Expired(_) => add(&self.expired),
            Outcome::Done(_) => {}
            Outcome::WrongEpoch(_) | Outcome::Stopping(_) | Outcome::Failure(_) => add(&self.failed),
        }
    }

    pub(crate) fn malformed(&self) {
        add(&self.malformed);
    }

    pub(crate) fn lost(&self) {
        add(&self.lost);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused);
    }

    fn snapshot(&self, name: &str) -> wire::KindStats {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        wire::KindStats {
            kind: name.to_owned(),
            sent_messages: get(&self.sent.messages),
            sent_bytes: get(&self.sent.bytes),
            heard_messages: get(&self.heard.messages),
            heard_bytes: get(&self.heard.bytes),
            overloads: get(&self.overloads),
            expired: get(&self.expired),
            refused: get(&self.refused),
            malformed: get(&self.malformed),
            lost: get(&self.lost),
            failed: get(&self.failed),
            asked_p99_us: self.asked.quantile(99),
            answered_p99_us: self.answered.quantile(99),
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Histogram of durations.
#[derive(Debug)]
struct Times([AtomicU64; BUCKETS]);

impl Default for Times {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Times {
    fn record(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.0.get(bucket(micros).min(BUCKETS - 1)) {
            add(bucket);
        }
    }

    /// Returns the time in microseconds that this percentage of values did not exceed; 0 without values.
    fn quantile(&self, percent: u64) -> u64 {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let rank = (counts.iter().sum::<u64>() * percent).div_ceil(100);
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= rank && rank > 0
        });
        found.map_or(0, highest)
    }
}

fn bucket(micros: u64) -> usize {
    if micros < 4 {
        return micros as usize;
    }
    let power = micros.ilog2();
    (power as usize - 1) * 4 + (micros >> (power - 2) & 3) as usize
}

/// Returns the highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    match bucket {
        0..4 => bucket as u64,
        _ => ((bucket as u64 % 4 + 5) << (bucket / 4 - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        let mut expected = 0;
        for micros in 0..100_000_u64 {
            let found = bucket(micros);
            assert!(found == expected || found == expected + 1, "{micros}");
            expected = found;
            assert!(highest(found) >= micros && highest(found) <= micros + micros / 4, "{micros}");
        }
    }

    #[test]
    fn the_99th_percentile_is_that_of_the_slowest_in_a_hundred() {
        let times = Times::default();
        assert_eq!(times.quantile(99), 0);
        (0..98).for_each(|_| times.record(Duration::from_micros(100)));
        times.record(Duration::from_millis(10));
        times.record(Duration::MAX);
        assert!((10_000..12_500).contains(&times.quantile(99)), "{}", times.quantile(99));
        assert!((100..125).contains(&times.quantile(50)));
    }
}

//! The pause before the next pod of a Job after failures: 10 s after the first failure since the last success, doubled with each up to 10 minutes.
//!
//! A Job's failures are kept in memory, because a deleted pod is a failure that leaves no trace. A process that has just taken over the Job computes
//! the failures from the counted pods.

use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::project::PodView;

/// The pause after the first failure (upstream `DefaultJobPodFailureBackOff`), in seconds.
const FIRST_PAUSE_SECONDS: i64 = 10;
/// The longest pause (upstream `MaxJobPodFailureBackOff`), in seconds.
const MAX_PAUSE_SECONDS: i64 = 600;

/// Failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The number of failures.
    pub(super) failures: i64,
    /// When the last one ended.
    pub(super) last: Option<Time>,
}

/// Returns when a pod ended.
pub(super) fn finished(pod: &Item<PodView>) -> Option<Time> {
    pod.value.job.as_ref().and_then(|details| details.finished).or(pod.meta.created)
}

impl Record {
    /// Returns the record with the pods that have ended since.
    pub(super) fn after<'a>(
        self,
        succeeded: impl IntoIterator<Item = &'a Item<PodView>>,
        failed: impl IntoIterator<Item = &'a Item<PodView>>,
    ) -> Self {
        let success = succeeded.into_iter().map(finished).max();
        let later = failed.into_iter().map(finished).filter(|at| success.is_none_or(|success| *at > success));
        let before = if success.is_some() { Self::default() } else { self };
        later.fold(before, |record, at| Self { failures: record.failures + 1, last: record.last.max(at) })
    }

    /// Limits the time of the last failure to `now`, so that a clock that was set back does not prolong the pause.
    pub(super) fn until(self, now: Time) -> Self {
        Self { last: self.last.min(Some(now)), ..self }
    }

    /// Returns the remaining pause before the next pod.
    pub(super) fn remaining(self, now: Time) -> Option<Duration> {
        let last = self.last.filter(|_| self.failures > 0)?;
        let doublings = u32::try_from(self.failures - 1).unwrap_or(u32::MAX);
        let pause = 2_i64
            .checked_pow(doublings)
            .and_then(|times| times.checked_mul(FIRST_PAUSE_SECONDS))
            .unwrap_or(MAX_PAUSE_SECONDS)
            .min(MAX_PAUSE_SECONDS);
        let due = last.unix().saturating_add(pause);
        let left = u64::try_from(due.saturating_sub(now.unix())).ok()?;
        (left > 0).then(|| Duration::from_secs(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_ten_seconds_to_ten_minutes() {
        let at = Time::from_unix(1000);
        let pauses: Vec<u64> = (0..9)
            .map(|failures| Record { failures, last: Some(at) }.remaining(at).map_or(0, |left| left.as_secs()))
            .collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
        let once = Record { failures: 1, last: Some(at) };
        assert_eq!(once.remaining(Time::from_unix(1004)), Some(Duration::from_secs(6)));
        assert_eq!(once.remaining(Time::from_unix(1010)), None);
        assert_eq!(Record { failures: i64::MAX, last: Some(at) }.remaining(at), Some(Duration::from_secs(600)));
        let back = Time::from_unix(500);
        assert_eq!(once.until(back).remaining(back), Some(Duration::from_secs(10)), "the clock was set back");
        assert_eq!(Record::default().until(back), Record::default());
    }
}

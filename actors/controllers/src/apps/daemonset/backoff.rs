//! The pause before a node gets another daemon pod after failures: none after the first failure, 1 s after the second, doubled with each up to 15 minutes
//! (upstream's `failedPodsBackoff`).
//!
//! Upstream keeps the failures in memory. Here each pod has the number of failures before it in an annotation, and a failed pod is deleted only after its
//! successor was created. So a process that takes over the set, or starts again, continues the pause.

use std::time::Duration;

use oarlock_informer::Item;
use oarlock_meta::Time;

use crate::project::PodView;

/// The longest pause, in seconds.
const MAX_PAUSE_SECONDS: i64 = 900;
/// The age from which a pod's failure is the first again, in seconds.
const MAX_MEMORY_SECONDS: i64 = 2 * MAX_PAUSE_SECONDS;

/// Returns the remaining time until a failed pod may be replaced. The pause began when the pod was created in place of the one before.
pub(super) fn pause(pod: &Item<PodView>, now: Time) -> Option<Duration> {
    let failures = former_failures(pod);
    if failures == 0 {
        return None;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    let pause = 2_i64.checked_pow(doublings).map_or(MAX_PAUSE_SECONDS, |pause| pause.min(MAX_PAUSE_SECONDS));
    // A clock that was set back does not prolong the pause.
    let began = pod.meta.created?.min(now);
    let left = began.unix().saturating_add(pause).saturating_sub(now.unix());
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_secs)
}

/// Returns the number of failures before the successor of a failed pod.
pub(super) fn failures_before_successor(pod: &Item<PodView>, now: Time) -> i64 {
    let age = pod.meta.created.map_or(0, |created| now.unix().saturating_sub(created.unix()));
    if age > MAX_MEMORY_SECONDS { 1 } else { former_failures(pod).saturating_add(1) }
}

fn former_failures(pod: &Item<PodView>) -> i64 {
    pod.value.daemon.as_ref().map_or(0, |daemon| daemon.former_failures)
}

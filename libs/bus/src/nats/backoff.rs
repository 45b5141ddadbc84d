//! Back-off between attempts to connect.

use std::time::Duration;

/// Pause after the first failed attempt, before the random part is taken off.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Returns the pause before the next attempt after this many consecutive failures: doubled each time, up to 2 s, of which `random` decides about half, so that members that
/// lost the same server do not reconnect together.
pub(super) fn pause(failures: u32, random: u64) -> Duration {
    let full = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(MAX_PAUSE);
    let half = full / 2;
    half + Duration::from_nanos(random % u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_maximum_and_are_spread() {
        let least: Vec<u128> = (0..8).map(|failures| pause(failures, 0).as_millis()).collect();
        assert_eq!(least, [25, 50, 100, 200, 400, 800, 1000, 1000]);
        assert!(pause(u32::MAX, u64::MAX) <= MAX_PAUSE && pause(0, 1) > pause(0, 0));
    }
}

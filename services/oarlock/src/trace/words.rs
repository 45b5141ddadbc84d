//! Says in words where the time of a change went.

use oarlock_meta::GoDuration;

use super::rows::Row;
use super::shares::Share;

/// The most stages that a sentence names.
const NAMED_STAGES: usize = 4;

/// Returns a duration in nanoseconds with about three digits, as Go writes durations: `1.25ms`, `812ms`, `3.21s`, `2m5s`.
pub(super) fn time(nanos: u64) -> String {
    let unit = match nanos {
        0..10_000 => 1,
        10_000..10_000_000 => 10_000,
        10_000_000..1_000_000_000 => 1_000_000,
        1_000_000_000..60_000_000_000 => 10_000_000,
        _ => 1_000_000_000,
    };
    GoDuration::from_nanos(i64::try_from(nanos / unit * unit).unwrap_or(i64::MAX)).to_string()
}

/// Says how long a change took or has taken, and which stages took most of the time.
pub(super) fn sentence(root: &Row, shares: &[Share], now: u64) -> String {
    let total = root.ended.unwrap_or(now).saturating_sub(root.began);
    let percent = |time: u64| u128::from(time) * 100 / u128::from(total.max(1));
    let stage = |share: &Share| format!("{} {} ({} %)", share.stage, time(share.time), percent(share.time));
    let stages: Vec<String> = shares.iter().take(NAMED_STAGES).map(stage).collect();
    let head = match (&root.error, root.ended) {
        (Some(error), _) => format!("failed after {}: {error}", time(total)),
        (None, Some(_)) => format!("took {}", time(total)),
        (None, None) => format!("has not ended after {}", time(total)),
    };
    if stages.is_empty() { head } else { format!("{head}; most of it: {}", stages.join(", ")) }
}

//! Divides the time of a change among its steps.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Row;

/// Name of the time in which no step was recorded.
pub(super) const BETWEEN: &str = "between steps";

/// A stage and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Name of the steps.
    pub(super) stage: String,
    /// Nanoseconds.
    pub(super) time: u64,
}

/// Returns the stages with their times, the longest first. The times add up to the time from the first row's start to its end, or to `now`: each moment counts for one step, the deepest in the tree, of these the one that
/// began last.
pub(super) fn shares(rows: &[Row], now: u64) -> Vec<Share> {
    let Some(root) = rows.first() else { return Vec::new() };
    let (from, to) = (root.began, root.ended.unwrap_or(now));
    let mut turns: Vec<(u64, bool, usize)> = Vec::new();
    for (index, row) in rows.iter().enumerate().skip(1) {
        let (began, ended) = (row.began.clamp(from, to.max(from)), row.ended.unwrap_or(now).clamp(from, to.max(from)));
        if began < ended {
            turns.extend([(began, true, index), (ended, false, index)]);
        }
    }
    turns.push((to, false, 0));
    turns.sort_unstable();
    let mut active: BTreeSet<(usize, u64, usize)> = BTreeSet::new();
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    let mut at = from;
    for (moment, begins, index) in turns {
        let deepest = active.last().and_then(|(_, _, index)| rows.get(*index));
        *times.entry(deepest.map_or(BETWEEN, |row| row.name.as_str())).or_default() += moment.saturating_sub(at);
        at = at.max(moment);
        let Some(row) = rows.get(index) else { continue };
        let key = (row.depth, row.began, index);
        if begins {
            active.insert(key)
        } else {
            active.remove(&key)
        };
    }
    let mut shares: Vec<Share> =
        times.into_iter().map(|(stage, time)| Share { stage: stage.to_owned(), time }).collect();
    shares.retain(|share| share.time > 0);
    shares.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.stage.cmp(&b.stage)));
    shares
}

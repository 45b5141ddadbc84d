//! Tracks which units were assigned to their holders only recently.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::Instant;

/// The time for which a newly assigned unit does not move, unless its holder has stopped.
const SETTLE_TIME: Duration = Duration::from_secs(10);

/// The times at which this process saw units change their holder.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// For each unit its epoch, and when this process saw the epoch change; `None` if no earlier epoch was seen.
    came: BTreeMap<String, (Revision, Option<Instant>)>,
}

impl Settling {
    /// Records the units' epochs at `now`. Must be called at each change, also in members that are not the coordinator; otherwise an old assignment
    /// would look recent when first seen.
    pub(crate) fn see<'a>(&mut self, epochs: impl IntoIterator<Item = (&'a String, Revision)>, now: Instant) {
        let before = std::mem::take(&mut self.came);
        let came = |unit: &String, epoch| match before.get(unit) {
            Some((known, came)) if *known == epoch => *came,
            known => known.map(|_| now),
        };
        self.came = epochs.into_iter().map(|(unit, epoch)| (unit.clone(), (epoch, came(unit, epoch)))).collect();
    }

    /// Whether a unit was assigned to its holder within the settle time. A unit of which no earlier epoch was seen counts as settled.
    pub(crate) fn has_just_come(&self, unit: &str, now: Instant) -> bool {
        self.came.get(unit).and_then(|(_, came)| *came).is_some_and(|came| now - came < SETTLE_TIME)
    }
}

#[cfg(test)]
mod tests {
    use oarlock_runtime::clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_unit_settles_from_when_it_came_and_not_from_when_it_is_asked_for() {
        let (mut settling, unit) = (Settling::default(), "arbiter".to_owned());
        settling.see([(&unit, Revision(1))], clock::now());
        assert!(!settling.has_just_come(&unit, clock::now()), "who knows since when it is there");
        settling.see([(&unit, Revision(2))], clock::now());
        assert!(settling.has_just_come(&unit, clock::now()));
        clock::sleep(SETTLE_TIME).await;
        assert!(!settling.has_just_come(&unit, clock::now()), "nobody asked meanwhile");
        settling.see([(&unit, Revision(2))], clock::now());
        assert!(!settling.has_just_come(&unit, clock::now()), "it is where it was");
        settling.see([], clock::now());
        settling.see([(&unit, Revision(3))], clock::now());
        assert!(!settling.has_just_come(&unit, clock::now()), "a new one is nobody's yet");
    }
}

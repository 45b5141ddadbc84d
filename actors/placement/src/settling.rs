//! Which units have come to their holders only a moment ago, as seen from here.

use std::collections::BTreeMap;
use std::time::Duration;

use oarlock_meta::Revision;
use oarlock_runtime::Instant;

/// A unit that has come to somebody stays so long, unless it must go.
const SETTLE: Duration = Duration::from_secs(10);

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// When each unit was seen to come to its holder, at this epoch; none if it was there already.
    came: BTreeMap<String, (Revision, Option<Instant>)>,
}

impl Settling {
    /// These are the epochs at `now`. To be told at each change, also by who does not coordinate: what came long ago would else seem to
    /// come when it is first asked for.
    pub(crate) fn see<'a>(&mut self, epochs: impl IntoIterator<Item = (&'a String, Revision)>, now: Instant) {
        let before = std::mem::take(&mut self.came);
        let came = |unit: &String, epoch| match before.get(unit) {
            Some((known, came)) if *known == epoch => *came,
            known => known.map(|_| now),
        };
        self.came = epochs.into_iter().map(|(unit, epoch)| (unit.clone(), (epoch, came(unit, epoch)))).collect();
    }

    /// Whether a unit has only just come to its holder. What was there when this began may have been there for long.
    pub(crate) fn has_just_come(&self, unit: &str, now: Instant) -> bool {
        self.came.get(unit).and_then(|(_, came)| *came).is_some_and(|came| now - came < SETTLE)
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
        clock::sleep(SETTLE).await;
        assert!(!settling.has_just_come(&unit, clock::now()), "nobody asked meanwhile");
        settling.see([(&unit, Revision(2))], clock::now());
        assert!(!settling.has_just_come(&unit, clock::now()), "it is where it was");
        settling.see([], clock::now());
        settling.see([(&unit, Revision(3))], clock::now());
        assert!(!settling.has_just_come(&unit, clock::now()), "a new one is nobody's yet");
    }
}

//! F1: a write under `unit@epoch` lies in the log between that epoch and the unit's next.

use crate::history::{Claim, History};
use crate::log::Log;
use crate::report::{Report, Rule};

/// The prefix of the keys of Assignments.
const ASSIGNMENTS: &str = "oarlock.dev/assignments/";

/// Compares each claim with the unit's Assignment at the time of the write.
pub(crate) fn check(history: &History, log: &Log<'_>, report: &mut Report) {
    // The writes before the first record cannot be judged.
    for claim in history.claims.iter().filter(|claim| claim.is.revision > log.after()) {
        report.count(Rule::F1);
        let Claim { unit, epoch, revision, key } = &claim.is;
        let found = log.written_at(*revision, key.as_deref().unwrap_or_default());
        if found.is_none_or(|(_, record)| key.as_ref().is_some_and(|key| *key != record.is.key)) {
            let what = format!("a write under {unit}@{epoch} at {revision}, which the log does not have");
            report.broke(Rule::F1, what, [Some(claim.place)]);
            continue;
        }
        let assigned = log.state(&format!("{ASSIGNMENTS}{unit}"), revision.saturating_sub(1)).map(|(_, record)| record);
        let held = assigned.filter(|record| record.is.body.is_some()).map(|record| record.is.revision);
        if held != Some(*epoch) {
            let held = held.map_or("nobody's".to_owned(), |held| format!("of epoch {held}"));
            let what = format!("a write under {unit}@{epoch} is at {revision}, when the unit was {held}");
            report.broke(Rule::F1, what, [Some(claim.place), assigned.map(|record| record.place)]);
        }
    }
}

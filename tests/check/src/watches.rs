//! W6: a watch delivers the log, filtered by its selector.

use std::collections::HashMap;

use crate::history::{At, Event, EventType, History, Labels, Place, Record, Step, Watch, selects};
use crate::log::Log;
use crate::report::{Report, Rule};

/// The event that a watch must deliver for a record.
struct Due<'a> {
    revision: u64,
    told: EventType,
    key: &'a str,
    body: Option<&'a str>,
    place: Place,
}

/// Compares every watch with the log.
pub(crate) fn check(history: &History, log: &Log<'_>, report: &mut Report) {
    let before = predecessors(log);
    // Watches of the same prefix and selector must deliver the same events.
    let mut dues: HashMap<(&str, &Labels), Vec<Due<'_>>> = HashMap::new();
    for watch in &history.watches {
        let open = &watch.open.is;
        let due =
            dues.entry((&open.key, &open.selector)).or_insert_with(|| due(log, &before, &open.key, &open.selector));
        Judge { history, report, due, watch, position: open.from }.run();
    }
}

/// For each record, the record that it replaced.
fn predecessors(log: &Log<'_>) -> Vec<Option<usize>> {
    let mut before = vec![None; log.records().count()];
    for (index, _) in log.records() {
        if let Some(slot) = log.successor(index).and_then(|(next, _)| before.get_mut(next)) {
            *slot = Some(index);
        }
    }
    before
}

fn due<'a>(log: &Log<'a>, before: &[Option<usize>], prefix: &str, selector: &Labels) -> Vec<Due<'a>> {
    let seen = |record: &&'a At<Record>| record.is.body.is_some() && selects(selector, &record.is.labels);
    let records = log.records().filter(|(_, record)| record.is.key.starts_with(prefix));
    let due = records.filter_map(|(index, record)| {
        let was = before.get(index).copied().flatten().and_then(|at| log.get(at)).filter(seen);
        let (told, body) = match (was, Some(record).filter(seen)) {
            (None, None) => return None,
            (None, Some(now)) => (EventType::Added, now),
            (Some(_), Some(now)) => (EventType::Modified, now),
            (Some(last), None) => (EventType::Deleted, last),
        };
        let Record { revision, key, .. } = &record.is;
        Some(Due { revision: *revision, told, key, body: body.is.body.as_deref(), place: record.place })
    });
    due.collect()
}

struct Judge<'a, 'r> {
    history: &'a History,
    report: &'r mut Report,
    due: &'r [Due<'a>],
    watch: &'a Watch,
    /// The revision up to which all events were delivered.
    position: u64,
}

impl Judge<'_, '_> {
    fn run(mut self) {
        for step in &self.watch.steps {
            match &step.is {
                Step::Resume(_) => {}
                Step::Event(event) => self.event(event, step.place),
                Step::End(end) => {
                    if let Some(through) = end.through {
                        self.all_told(through, step.place);
                    }
                }
            }
        }
    }

    fn event(&mut self, event: &Event, place: Place) {
        self.report.count(Rule::W6);
        let Some(revision) = event.revision else { return self.gone(event, place) };
        if event.told == EventType::Bookmark {
            if revision < self.position {
                let what = format!("a bookmark of {revision} after {}", self.position);
                self.report.broke(Rule::W6, what, [Some(place), Some(self.watch.open.place)]);
            }
            return self.all_told(revision, place);
        }
        if revision <= self.position {
            let what = format!("it told {revision} after {}", self.position);
            return self.report.broke(Rule::W6, what, [Some(place), Some(self.watch.open.place)]);
        }
        // Each revision of a key is one record.
        self.all_told(revision - 1, place);
        self.position = revision;
        let Ok(at) = self.due.binary_search_by_key(&revision, |due| due.revision) else {
            let what = format!("it told {revision} of {}, which the log does not have for it", event.key);
            return self.report.broke(Rule::W6, what, [Some(place), Some(self.watch.open.place)]);
        };
        let Some(due) = self.due.get(at) else { return };
        if (event.told, event.key.as_str(), event.body.as_deref()) != (due.told, due.key, due.body) {
            let what =
                format!("revision {revision} was told otherwise than {:?} of {} with its bytes", due.told, due.key);
            self.report.broke(Rule::W6, what, [Some(place), Some(due.place)]);
        }
    }

    /// Moves the position forward, and reports the events that the watch omitted.
    fn all_told(&mut self, through: u64, place: Place) {
        let from = self.due.partition_point(|due| due.revision <= self.position);
        let to = self.due.partition_point(|due| due.revision <= through);
        for missed in self.due.get(from..to).unwrap_or_default() {
            let what = format!("it never told {} of {}", missed.revision, missed.key);
            self.report.broke(Rule::W6, what, [Some(place), Some(missed.place), Some(self.watch.open.place)]);
        }
        self.position = self.position.max(through);
    }

    fn gone(&mut self, event: &Event, place: Place) {
        if !self.history.gone(self.position, event.at) {
            let what = format!("410 after {}, which no floor had passed", self.position);
            self.report.broke(Rule::W6, what, [Some(place), Some(self.watch.open.place)]);
        }
    }
}

//! When changes began. An object has whole seconds (`metadata.creationTimestamp`, `managedFields`), so a root that is recorded from the object alone would begin up to a second before its change.
//!
//! Better is known, in this order: the `commit` of the change, if this process made it; the UID of an object that was created, which holds the time; the first `reconcile` of the change in this
//! process, which began when the process saw the change.

use std::time::{Duration, SystemTime};

use hashbrown::HashTable;
use oarlock_seeded_bug::seeded_bug;
use opentelemetry::trace::SpanId;
use parking_lot::Mutex;

use super::change::Change;
use super::record;
use super::step::{COMMIT, RECONCILE, Step};

/// The most changes whose beginnings are remembered, some 30 KiB; the earliest is forgotten first.
const MAX_CHANGES: u16 = 1024;
/// What the times of objects are exact to.
const SECOND: Duration = Duration::from_secs(1);

/// The beginnings of the latest changes, by the span ids of their roots.
#[derive(Debug, Default)]
pub(crate) struct Begins(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    began: Vec<Begin>,
    /// Where the earliest beginning is once there are [`MAX_CHANGES`]; the next one takes its place.
    earliest: u16,
    /// The place of each root. The id of a root is a hash already.
    places: HashTable<u16>,
}

/// The beginning of a change.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The span id of the change's root.
    root: u64,
    /// Nanoseconds since the epoch.
    nanos: u64,
    /// Whether the beginning is that of the commit itself.
    is_commit: bool,
}

impl Begin {
    fn at(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.nanos)
    }
}

impl Begins {
    /// Remembers the beginning of a change from its first step in this process; lets a root begin with its change.
    pub(crate) fn correct(&self, step: Step) -> Step {
        if step.parent() == SpanId::INVALID {
            let known = self.0.lock().began(number(step.context().span_id()));
            let (began, ended) = step.times();
            return match exact(&step, known, began) {
                Some(exact) => step.began(exact.min(ended)).ended(ended),
                None => step,
            };
        }
        let is_commit = step.name() == COMMIT;
        if is_commit || step.name() == RECONCILE {
            let (root, nanos) = (number(step.parent()), record::since_epoch(step.times().0));
            self.0.lock().remember(Begin { root, nanos, is_commit });
        }
        step
    }
}

/// Returns when the change of a root began, if better is known than `began`. What is no commit of this process counts only within the second that begins then.
fn exact(root: &Step, known: Option<Begin>, began: SystemTime) -> Option<SystemTime> {
    if let Some(commit) = known.filter(|known| known.is_commit) {
        return Some(commit.at());
    }
    let context = root.context();
    let by_uid = Change::created(context.trace_id(), context.span_id());
    let fits = |at: &SystemTime| at.duration_since(began).is_ok_and(|after| after < SECOND);
    by_uid.filter(fits).filter(|_| !seeded_bug!("root_at_the_second")).or_else(|| known.map(Begin::at).filter(fits))
}

fn number(span: SpanId) -> u64 {
    u64::from_be_bytes(span.to_bytes())
}

impl Parts {
    fn began(&self, root: u64) -> Option<Begin> {
        let place = self.places.find(root, |place| self.root(*place) == root)?;
        self.began.get(usize::from(*place)).copied()
    }

    fn root(&self, place: u16) -> u64 {
        self.began.get(usize::from(place)).map_or(0, |begin| begin.root)
    }

    /// The first step of a change counts.
    fn remember(&mut self, begin: Begin) {
        if self.began(begin.root).is_some() {
            return;
        }
        let place = match u16::try_from(self.began.len()).ok().filter(|count| *count < MAX_CHANGES) {
            Some(place) => {
                self.began.push(begin);
                place
            }
            None => {
                let place = self.earliest;
                if let Ok(forgotten) = self.places.find_entry(self.root(place), |known| *known == place) {
                    forgotten.remove();
                }
                if let Some(earliest) = self.began.get_mut(usize::from(place)) {
                    *earliest = begin;
                }
                self.earliest = (place + 1) % MAX_CHANGES;
                place
            }
        };
        let began = &self.began;
        let root_at = |place: &u16| began.get(usize::from(*place)).map_or(0, |begin| begin.root);
        self.places.insert_unique(begin.root, place, root_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    fn change(number: usize) -> Change {
        Change::new(&format!("object {number}"), 1)
    }

    /// Returns the beginning of the root of a change that would begin at the second 5.
    fn root_of(begins: &Begins, change: &Change, ended: u64) -> SystemTime {
        begins.correct(Step::root(change, "pod create").began(at(5000)).ended(at(ended))).times().0
    }

    fn root(begins: &Begins, number: usize, ended: u64) -> SystemTime {
        root_of(begins, &change(number), ended)
    }

    fn step(begins: &Begins, number: usize, name: &'static str, began: u64) {
        let _unchanged = begins.correct(Step::of(&change(number), name).began(at(began)).ended(at(began + 1)));
    }

    #[test]
    fn a_root_begins_with_the_first_commit_of_its_change_that_this_process_made() {
        let begins = Begins::default();
        step(&begins, 1, COMMIT, 5250);
        step(&begins, 1, COMMIT, 5300);
        step(&begins, 2, "bind", 5400);
        assert_eq!([root(&begins, 1, 9000), root(&begins, 2, 9000)], [at(5250), at(5000)]);
        assert_eq!(root(&begins, 1, 5100), at(5100), "a root never begins after its end");
    }

    #[test]
    fn a_root_of_another_process_begins_with_the_time_in_the_uid() {
        let begins = Begins::default();
        let uid = |millis: u64| format!("{millis:012x}74008c550123456789ab");
        let creation = |millis| Change::new(&uid(millis), 1);
        assert_eq!(root_of(&begins, &creation(5250), 9000), at(5250) + Duration::from_micros(250));
        assert_eq!(root_of(&begins, &creation(5250), 5100), at(5100), "a root never begins after its end");
        for other in [creation(4999), creation(6000), Change::new(&uid(5250), 2), Change::new(&uid(5250), 7)] {
            assert_eq!(root_of(&begins, &other, 9000), at(5000), "{other:?}");
        }
        let here = creation(5400);
        let _unchanged = begins.correct(Step::of(&here, COMMIT).began(at(5410)).ended(at(5411)));
        assert_eq!(root_of(&begins, &here, 9000), at(5410), "its commit was made here");
    }

    #[test]
    fn a_root_of_another_process_begins_when_this_process_saw_the_change_within_the_second() {
        let begins = Begins::default();
        for (number, seen) in [(1, 5300), (2, 6000), (3, 4999)] {
            step(&begins, number, RECONCILE, seen);
            step(&begins, number, RECONCILE, 5900);
        }
        assert_eq!([1, 2, 3].map(|number| root(&begins, number, 9000)), [at(5300), at(5000), at(5000)]);
    }

    #[test]
    fn the_earliest_beginnings_are_forgotten() {
        let begins = Begins::default();
        for round in 0..3 {
            for number in 0..=usize::from(MAX_CHANGES) {
                step(&begins, number, COMMIT, 5250 + round);
            }
        }
        let of = |number| root(&begins, number, 9000);
        assert_eq!([of(0), of(1), of(1024)], [at(5000), at(5252), at(5252)]);
        let parts = begins.0.lock();
        assert_eq!([parts.began.len(), parts.places.len()], [usize::from(MAX_CHANGES); 2]);
        let bytes = parts.began.capacity() * size_of::<Begin>() + parts.places.allocation_size();
        assert!(bytes <= 32 << 10, "{bytes} bytes");
    }
}

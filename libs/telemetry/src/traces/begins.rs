//! When changes began, as far as this process committed them. `metadata.creationTimestamp` has whole seconds, so a root that is recorded from the object alone would begin up to a second before
//! its change.

use std::time::{Duration, SystemTime};

use hashbrown::HashTable;
use opentelemetry::trace::SpanId;
use parking_lot::Mutex;

use super::record;
use super::step::{COMMIT, Step};

/// The most changes whose beginnings are remembered, some 22 KiB; the earliest is forgotten first.
const MOST: u16 = 1024;

/// The beginnings of the latest changes, by the span ids of their roots.
#[derive(Debug, Default)]
pub(crate) struct Begins(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    /// Roots with their beginnings, in nanoseconds since the epoch.
    began: Vec<(u64, u64)>,
    /// Where the earliest beginning is once there are [`MOST`]; the next one takes its place.
    earliest: u16,
    /// The place of each root. The id of a root is a hash already.
    places: HashTable<u16>,
}

impl Begins {
    /// Remembers the beginning of a change from its `commit`; lets a root begin with the commit of its change, if this process made the commit.
    pub(crate) fn correct(&self, step: Step) -> Step {
        if step.parent() == SpanId::INVALID {
            let began = self.0.lock().began(number(step.context().span_id()));
            if let Some(began) = began {
                let (_, ended) = step.times();
                return step.began(began.min(ended)).ended(ended);
            }
        } else if step.name() == COMMIT {
            self.0.lock().remember(number(step.parent()), record::since_epoch(step.times().0));
        }
        step
    }
}

fn number(span: SpanId) -> u64 {
    u64::from_be_bytes(span.to_bytes())
}

impl Parts {
    fn began(&self, root: u64) -> Option<SystemTime> {
        let place = self.places.find(root, |place| self.root(*place) == root)?;
        let (_, nanos) = self.began.get(usize::from(*place))?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(*nanos))
    }

    fn root(&self, place: u16) -> u64 {
        self.began.get(usize::from(place)).map_or(0, |(root, _)| *root)
    }

    /// The first commit of a change counts.
    fn remember(&mut self, root: u64, began: u64) {
        if self.began(root).is_some() {
            return;
        }
        let place = match u16::try_from(self.began.len()).ok().filter(|count| *count < MOST) {
            Some(place) => {
                self.began.push((root, began));
                place
            }
            None => {
                let place = self.earliest;
                if let Ok(forgotten) = self.places.find_entry(self.root(place), |known| *known == place) {
                    forgotten.remove();
                }
                if let Some(earliest) = self.began.get_mut(usize::from(place)) {
                    *earliest = (root, began);
                }
                self.earliest = (place + 1) % MOST;
                place
            }
        };
        let began = &self.began;
        let root_at = |place: &u16| began.get(usize::from(*place)).map_or(0, |(root, _)| *root);
        self.places.insert_unique(root, place, root_at);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::change::Change;
    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    fn change(number: usize) -> Change {
        Change::new(&format!("object {number}"), 1)
    }

    /// Returns the beginning of the root of a change that would begin at the second 5.
    fn root(begins: &Begins, number: usize, ended: u64) -> SystemTime {
        let root = Step::root(&change(number), "pod create").began(at(5000)).ended(at(ended));
        begins.correct(root).times().0
    }

    fn commit(begins: &Begins, number: usize, began: u64) {
        let _unchanged = begins.correct(Step::of(&change(number), COMMIT).began(at(began)).ended(at(began + 1)));
    }

    #[test]
    fn a_root_begins_with_the_first_commit_of_its_change_that_this_process_made() {
        let begins = Begins::default();
        commit(&begins, 1, 5250);
        commit(&begins, 1, 5300);
        let _unchanged = begins.correct(Step::of(&change(2), "bind").began(at(5400)));
        assert_eq!([root(&begins, 1, 9000), root(&begins, 2, 9000)], [at(5250), at(5000)]);
        assert_eq!(root(&begins, 1, 5100), at(5100), "a root never begins after its end");
    }

    #[test]
    fn the_earliest_beginnings_are_forgotten() {
        let begins = Begins::default();
        for round in 0..3 {
            for number in 0..=usize::from(MOST) {
                commit(&begins, number, 5250 + round);
            }
        }
        let of = |number| root(&begins, number, 9000);
        assert_eq!([of(0), of(1), of(1024)], [at(5000), at(5252), at(5252)]);
        let parts = begins.0.lock();
        assert_eq!([parts.began.len(), parts.places.len()], [usize::from(MOST); 2]);
        let bytes = parts.began.capacity() * size_of::<(u64, u64)>() + parts.places.allocation_size();
        assert!(bytes <= 24 << 10, "{bytes} bytes");
    }
}

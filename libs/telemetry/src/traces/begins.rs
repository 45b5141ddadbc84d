//! When changes began, as far as this process committed them. `metadata.creationTimestamp` has whole seconds, so a root that is recorded from the object alone would begin up to a second before
//! its change.

use std::collections::{HashMap, VecDeque};
use std::time::SystemTime;

use foldhash::fast::RandomState;
use opentelemetry::trace::SpanId;
use parking_lot::Mutex;

use super::step::{COMMIT, Step};

/// The most changes whose beginnings are remembered; the earliest is forgotten first.
const MAX_CHANGES: usize = 1024;

/// The beginnings of the latest changes, by the span ids of their roots.
#[derive(Debug, Default)]
pub(crate) struct Begins(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    began: HashMap<SpanId, SystemTime, RandomState>,
    order: VecDeque<SpanId>,
}

impl Begins {
    /// Remembers the beginning of a change from its `commit`; lets a root begin with the commit of its change, if this process made the commit.
    pub(crate) fn correct(&self, step: Step) -> Step {
        if step.parent() == SpanId::INVALID {
            let began = self.0.lock().began.get(&step.context().span_id()).copied();
            if let Some(began) = began {
                let (_, ended) = step.times();
                return step.began(began.min(ended)).ended(ended);
            }
        } else if step.name() == COMMIT {
            self.0.lock().remember(step.parent(), step.times().0);
        }
        step
    }
}

impl Parts {
    /// The first commit of a change counts.
    fn remember(&mut self, root: SpanId, began: SystemTime) {
        if self.began.contains_key(&root) {
            return;
        }
        if self.order.len() >= MAX_CHANGES
            && let Some(earliest) = self.order.pop_front()
        {
            self.began.remove(&earliest);
        }
        self.order.push_back(root);
        self.began.insert(root, began);
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
        for number in 0..=MAX_CHANGES {
            commit(&begins, number, 5250);
        }
        assert_eq!([root(&begins, 0, 9000), root(&begins, 1, 9000)], [at(5000), at(5250)]);
        let parts = begins.0.lock();
        assert_eq!([parts.began.len(), parts.order.len()], [MAX_CHANGES; 2]);
    }
}

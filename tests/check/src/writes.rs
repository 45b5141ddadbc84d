//! W1, W2, W5 and half of W4: matches writes with their records.

use std::collections::HashMap;

use crate::history::{At, Call, History, Op, Outcome, Reason};
use crate::log::Log;
use crate::report::{Report, Rule};

/// For each call, by its index in the history, the record that the call made, as far as known.
pub(crate) struct Written {
    made: Vec<Option<usize>>,
}

impl Written {
    /// The record that a call made.
    pub(crate) fn made(&self, call: usize) -> Option<usize> {
        self.made.get(call).copied().flatten()
    }
}

struct Judge<'a, 'r> {
    log: &'a Log<'a>,
    report: &'r mut Report,
    /// For each record, the call that made it.
    makers: HashMap<usize, &'a At<Call>>,
    /// The call to which each revision was returned.
    told: HashMap<u64, &'a At<Call>>,
    made: Vec<Option<usize>>,
}

/// Finds every write in the log.
pub(crate) fn check<'a>(history: &'a History, log: &'a Log<'a>, report: &mut Report) -> Written {
    let mut judge =
        Judge { log, report, makers: HashMap::new(), told: HashMap::new(), made: vec![None; history.calls.len()] };
    let calls = |outcome| history.calls.iter().enumerate().filter(move |(_, call)| call.is.outcome == outcome);
    for (index, call) in calls(Outcome::Ok) {
        match call.is.op {
            Op::Create | Op::Update => judge.acknowledged(index, call),
            Op::Delete => judge.acknowledged_delete(index, call),
            Op::Get | Op::List => {}
        }
    }
    // When several calls may have made the same deletion, the one that began first gets it, because it has the weakest lower bound.
    let mut unknown: Vec<_> = calls(Outcome::Unknown).collect();
    unknown.sort_by_key(|(_, call)| call.is.invoke);
    for (index, call) in unknown {
        judge.unknown(index, call);
    }
    for (_, call) in calls(Outcome::Rejected) {
        judge.rejected(call);
    }
    judge.unasked(history);
    Written { made: judge.made }
}

impl<'a> Judge<'a, '_> {
    fn acknowledged(&mut self, index: usize, call: &'a At<Call>) {
        self.report.count(Rule::W1);
        let revision = call.is.revision.unwrap_or_default();
        let Some((at, record)) = self.log.written_at(revision, &call.is.key) else {
            let what = format!("acknowledged at {revision}, which the log does not have");
            return self.report.broke(Rule::W1, what, [Some(call.place)]);
        };
        let evidence = [Some(call.place), Some(record.place)];
        if record.is.key != call.is.key || record.is.body != call.is.body || record.is.tag != call.is.tag {
            let what = format!("what was acknowledged at {revision} is not what the log has there");
            return self.report.broke(Rule::W1, what, evidence);
        }
        if let [_, again, ..] = call.is.tag.as_deref().map_or(&[][..], |tag| self.log.tagged(tag)) {
            let again = self.log.get(*again).map(|record| record.place);
            self.report.broke(
                Rule::W1,
                "it was written twice".to_owned(),
                [Some(call.place), Some(record.place), again],
            );
        }
        self.claim(index, at, call);
        self.follows(at, call);
    }

    fn acknowledged_delete(&mut self, index: usize, call: &'a At<Call>) {
        self.report.count(Rule::W1);
        let found = match call.is.revision {
            Some(revision) => self.log.written_at(revision, &call.is.key),
            None => self.deletion(&call.is),
        };
        match found.filter(|(_, record)| record.is.key == call.is.key && record.is.body.is_none()) {
            Some((at, _)) => {
                self.claim(index, at, call);
                self.follows(at, call);
            }
            None => {
                let what = format!("the deletion of {} was acknowledged, and the log does not have it", call.is.key);
                self.report.broke(Rule::W1, what, [Some(call.place), found.map(|(_, record)| record.place)]);
            }
        }
    }

    /// Returns the deletion that a call asked for, by the revision that it expected.
    fn deletion(&self, call: &Call) -> Option<(usize, &'a At<crate::history::Record>)> {
        let (expected, record) = self.log.written_at(call.expect?, &call.key)?;
        if record.is.key != call.key {
            return None;
        }
        self.log.successor(expected).filter(|(_, next)| next.is.body.is_none())
    }

    fn claim(&mut self, index: usize, at: usize, call: &'a At<Call>) {
        if let Some(made) = self.made.get_mut(index) {
            *made = Some(at);
        }
        self.makers.insert(at, call);
        let revision = self.log.get(at).map_or(0, |record| record.is.revision);
        if let Some(other) = self.told.insert(revision, call) {
            let what = format!("revision {revision} was acknowledged twice");
            self.report.broke(Rule::W1, what, [Some(call.place), Some(other.place)]);
        }
    }

    /// Checks W2: a write replaced the revision that it expected.
    fn follows(&mut self, at: usize, call: &At<Call>) {
        self.report.count(Rule::W2);
        let Some(record) = self.log.get(at) else { return };
        let (prev, evidence) = (record.is.prev, [Some(call.place), Some(record.place)]);
        let right = match (call.is.op, call.is.expect) {
            (Op::Create, _) => prev.is_none(),
            (_, Some(expected)) => prev == Some(expected),
            (_, None) => prev.is_some(),
        };
        if !right {
            let expected = match (call.is.op, call.is.expect) {
                (Op::Create, _) => "nothing".to_owned(),
                (_, expected) => expected.map_or("something".to_owned(), |revision| revision.to_string()),
            };
            let what = format!("revision {} replaced {prev:?}, and expected {expected}", record.is.revision);
            self.report.broke(Rule::W2, what, evidence);
        }
    }

    /// Checks W5. A deletion with a known predecessor can be in the log only once.
    fn unknown(&mut self, index: usize, call: &'a At<Call>) {
        match call.is.op {
            Op::Get | Op::List => {}
            Op::Create | Op::Update => {
                self.report.count(Rule::W5);
                let found = call.is.tag.as_deref().map_or(&[][..], |tag| self.log.tagged(tag));
                if found.len() > 1 {
                    let places = found.iter().map(|at| self.log.get(*at).map(|record| record.place));
                    let evidence = std::iter::once(Some(call.place)).chain(places);
                    self.report.broke(
                        Rule::W5,
                        "nobody knows its outcome, and it was written twice".to_owned(),
                        evidence,
                    );
                }
                let Some(at) = found.first().copied() else { return };
                let record = self.log.get(at).filter(|record| record.is.key != call.is.key);
                if let Some(record) = record {
                    let what = format!("it was written to {}", record.is.key);
                    self.report.broke(Rule::W5, what, [Some(call.place), Some(record.place)]);
                }
                self.claim(index, at, call);
                self.follows(at, call);
            }
            Op::Delete => {
                self.report.count(Rule::W5);
                if let Some((at, _)) = self.deletion(&call.is)
                    && !self.makers.contains_key(&at)
                {
                    self.claim(index, at, call);
                }
            }
        }
    }

    /// Checks W4: a refused write is not in the log.
    fn rejected(&mut self, call: &'a At<Call>) {
        let found = match call.is.op {
            Op::Get | Op::List => return,
            Op::Create | Op::Update => {
                let found = call.is.tag.as_deref().and_then(|tag| self.log.tagged(tag).first());
                found.and_then(|at| self.log.get(*at).map(|record| (*at, record)))
            }
            // The deletion may be another writer's. Below the clients' own prefixes it is reported as a record that no call asked for.
            Op::Delete => return,
        };
        self.report.count(Rule::W4);
        if let Some((at, record)) = found {
            self.makers.insert(at, call);
            let what = format!("refused ({}), and yet written", reason(call));
            self.report.broke(Rule::W4, what, [Some(call.place), Some(record.place)]);
        }
    }

    /// Checks that only the clients write below their own prefixes.
    fn unasked(&mut self, history: &History) {
        let own = |key: &str| history.truth.own.iter().any(|prefix| key.starts_with(prefix.as_str()));
        for (at, record) in self.log.records() {
            if record.is.revision > self.log.after() && own(&record.is.key) && !self.makers.contains_key(&at) {
                let what = format!("nobody asked for revision {} of {}", record.is.revision, record.is.key);
                self.report.broke(Rule::Log, what, [Some(record.place)]);
            }
        }
    }
}

fn reason(call: &At<Call>) -> &'static str {
    match call.is.reason {
        Some(Reason::Exists) => "it exists",
        Some(Reason::Absent) => "there is none",
        Some(Reason::Conflict) => "conflict",
        Some(Reason::Expired) => "expired",
        Some(Reason::Other) | None => "for another reason",
    }
}

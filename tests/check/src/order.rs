//! W3 and W4: checks that real time agrees with the log's order.
//!
//! Every call that took effect did so at one position of the log, between its beginning and its end. One sweep through time gives each call the least
//! position that its own answer and all calls that returned before it began allow. If any choice of positions works, this one does.

use crate::history::{Asked, At, Call, History, Op, Outcome, Place, Reason, Step};
use crate::log::Log;
use crate::report::{Report, Rule};
use crate::writes::Written;

/// The highest position proven so far, and the line that proves it.
#[derive(Clone, Copy, Default)]
struct Known {
    position: u64,
    by: Option<Place>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// A call begins. Sorted before ends at the same time: such calls overlap.
    Begin(usize),
    End(usize),
    /// A watch delivered a revision.
    EventType(u64, Place),
}

struct Sweep<'a, 'r> {
    log: &'a Log<'a>,
    history: &'a History,
    report: &'r mut Report,
    known: Known,
    /// The highest proven position at the beginning of each call.
    lower: Vec<Known>,
}

/// Sweeps through the history in the order of time.
pub(crate) fn check(history: &History, log: &Log<'_>, written: &Written, report: &mut Report) {
    let mut moments = Vec::with_capacity(2 * history.calls.len());
    for (index, call) in history.calls.iter().enumerate() {
        moments.push((call.is.invoke, Moment::Begin(index)));
        if call.is.outcome != Outcome::Unknown {
            moments.push((call.is.returned.unwrap_or(u64::MAX), Moment::End(index)));
        }
    }
    let steps = history.watches.iter().flat_map(|watch| &watch.steps);
    moments.extend(steps.filter_map(|step| match &step.is {
        Step::Event(event) => Some((event.at, Moment::EventType(event.revision?, step.place))),
        Step::Resume(_) | Step::End(_) => None,
    }));
    moments.sort_unstable();
    let known = Known { position: log.after(), by: None };
    let mut sweep = Sweep { log, history, report, known, lower: vec![known; history.calls.len()] };
    for (_, moment) in moments {
        match moment {
            Moment::Begin(index) => sweep.begins(index, written.made(index)),
            Moment::End(index) => sweep.ends(index, written.made(index)),
            Moment::EventType(revision, place) => sweep.shows(revision, place),
        }
    }
}

impl Sweep<'_, '_> {
    fn shows(&mut self, position: u64, by: Place) {
        // A position beyond the log proves nothing; the rule of the log reports it.
        if position > self.known.position && position <= self.log.through() {
            self.known = Known { position, by: Some(by) };
        }
    }

    fn begins(&mut self, index: usize, made: Option<usize>) {
        if let Some(lower) = self.lower.get_mut(index) {
            *lower = self.known;
        }
        let (Some(call), Some(record)) = (self.history.calls.get(index), made.and_then(|at| self.log.get(at))) else {
            return;
        };
        self.report.count(Rule::W3);
        if record.is.revision <= self.known.position {
            let (revision, known) = (record.is.revision, self.known.position);
            let what = format!("written at {revision}, but {known} was known before it began");
            self.report.broke(Rule::W3, what, [Some(call.place), self.known.by, Some(record.place)]);
        }
    }

    fn ends(&mut self, index: usize, made: Option<usize>) {
        let (Some(call), Some(lower)) = (self.history.calls.get(index), self.lower.get(index).copied()) else { return };
        let position = match (call.is.outcome, call.is.op) {
            (Outcome::Rejected, _) => self.refused(call, lower),
            (_, Op::Get) => self.got(call, lower),
            (_, Op::List) => self.listed(call, lower),
            (_, Op::Create | Op::Update | Op::Delete) => {
                made.and_then(|at| self.log.get(at)).map(|record| record.is.revision)
            }
        };
        if let Some(position) = position {
            self.shows(position, call.place);
        }
    }

    /// Returns the position of a read of one object.
    fn got(&mut self, call: &At<Call>, lower: Known) -> Option<u64> {
        self.report.count(Rule::W3);
        let revision = call.is.revision.unwrap_or_default();
        let found = self.log.written_at(revision, &call.is.key);
        let Some((at, _)) = found.filter(|(_, record)| record.is.key == call.is.key && record.is.body == call.is.body)
        else {
            let what = format!("it read revision {revision} of {}, which the log does not have so", call.is.key);
            self.report.broke(Rule::W3, what, [Some(call.place), found.map(|(_, record)| record.place)]);
            return None;
        };
        let least = match call.is.asked {
            Asked::Recent => lower.position,
            Asked::AtLeast(least) | Asked::Exactly(least) => least,
        };
        match self.log.successor(at) {
            Some((_, next)) if next.is.revision <= least => {
                let what = format!("it read revision {revision}, which {} had replaced before", next.is.revision);
                let by = lower.by.filter(|_| call.is.asked == Asked::Recent);
                self.report.broke(Rule::W3, what, [Some(call.place), Some(next.place), by]);
                None
            }
            _ if call.is.asked == Asked::Recent => Some(revision.max(lower.position)),
            _ => Some(revision),
        }
    }

    /// Returns the position of a list; a later page has the position of the first.
    fn listed(&mut self, call: &At<Call>, lower: Known) -> Option<u64> {
        let revision = call.is.revision.unwrap_or_default();
        if call.is.list.as_ref().is_some_and(|page| page.page > 0) {
            return None;
        }
        self.report.count(Rule::W3);
        let (right, wanted) = match call.is.asked {
            Asked::Recent => (revision >= lower.position, lower.position),
            Asked::AtLeast(least) => (revision >= least, least),
            Asked::Exactly(one) => (revision == one, one),
        };
        if !right {
            let what = format!("a list of revision {revision}, and {wanted} was asked for or known before it began");
            self.report.broke(Rule::W3, what, [Some(call.place), lower.by]);
            return None;
        }
        if revision > self.log.through() {
            let what = format!("a list of revision {revision}, and the log ends at {}", self.log.through());
            self.report.broke(Rule::W3, what, [Some(call.place)]);
        }
        Some(revision)
    }

    /// Returns the position of a refusal: the first state that justifies the refusal.
    fn refused(&mut self, call: &At<Call>, lower: Known) -> Option<u64> {
        let from = match call.is.asked {
            Asked::Recent => lower.position,
            Asked::AtLeast(least) | Asked::Exactly(least) => least.max(self.log.after()),
        };
        let expect = call.is.expect;
        let (moment, why) = match call.is.reason? {
            Reason::Other => return None,
            Reason::Expired => return self.expired(call),
            Reason::Exists => (self.log.moment(&call.is.key, from, |there| there.is_some()), "exists"),
            Reason::Absent => (self.log.moment(&call.is.key, from, |there| there.is_none()), "is absent"),
            Reason::Conflict => {
                (self.log.moment(&call.is.key, from, |there| there != expect), "is another than expected")
            }
        };
        self.report.count(Rule::W4);
        if moment.is_none() {
            let what = format!("refused, but from {from} on there is no moment at which {} {why}", call.is.key);
            let state = self.log.state(&call.is.key, from).map(|(_, record)| record.place);
            self.report.broke(Rule::W4, what, [Some(call.place), lower.by, state]);
        }
        moment.filter(|_| call.is.asked == Asked::Recent)
    }

    /// Checks the 410 of a read, which is allowed only below the floor.
    fn expired(&mut self, call: &At<Call>) -> Option<u64> {
        self.report.count(Rule::W4);
        let first = |page: &crate::history::Page| {
            let pages = self.history.calls.iter().filter(|other| other.is.outcome == Outcome::Ok);
            let mut first = pages.filter(|other| other.is.list.as_ref().is_some_and(|own| own.id == page.id));
            first.find_map(|other| other.is.revision)
        };
        let asked = match call.is.asked {
            Asked::Exactly(revision) => Some(revision),
            Asked::Recent | Asked::AtLeast(_) => call.is.list.as_ref().filter(|page| page.page > 0).and_then(first),
        };
        let end = call.is.returned.unwrap_or(u64::MAX);
        if asked.is_none_or(|asked| !self.history.gone(asked, end)) {
            let what = format!("410 for revision {asked:?}, which no floor had passed");
            self.report.broke(Rule::W4, what, [Some(call.place)]);
        }
        None
    }
}

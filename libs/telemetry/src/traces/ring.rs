//! The ring of ended spans: memory of the process for `oarlock trace`.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use opentelemetry::trace::TraceId;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;

use super::limits;
use super::log::Log;
use super::record;
use super::step::Step;

/// The most spans that are looked at under one hold of the lock.
const CHUNK: u64 = 1024;

/// A bounded store of ended spans; clones are the same store. Spans of lives and spans of requests have a bound each, so that no number of requests displaces the life of an object. When a bound
/// is reached, the spans that ended first are evicted.
#[derive(Clone, Debug)]
pub struct Ring(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    lives: Mutex<Part>,
    requests: Mutex<Part>,
}

#[derive(Debug, Default)]
struct Part {
    /// The records of the spans.
    log: Log,
    /// The spans of work below requests, as the SDK has recorded them, in the order of their records, which have their numbers.
    work: VecDeque<Arc<SpanData>>,
    /// The number of the first of these spans.
    first_work: u64,
    bytes: usize,
    limit: usize,
}

/// A span that a search has found.
enum Found {
    /// The record of a step of a life, or of a request, after the base of its times.
    Step(u64, Vec<u8>),
    Work(Arc<SpanData>),
}

impl Found {
    fn expand(self) -> Option<Arc<SpanData>> {
        match self {
            Self::Step(base, record) => record::expand(base, &record).map(Arc::new),
            Self::Work(span) => Some(span),
        }
    }
}

impl Ring {
    /// Creates a ring with so many bytes for the spans of lives and of requests.
    #[must_use]
    pub fn new(lives: usize, requests: usize) -> Self {
        let part = |limit| Mutex::new(Part { limit, ..Part::default() });
        Self(Arc::new(Parts { lives: part(lives), requests: part(requests) }))
    }

    /// Keeps a step of a life.
    pub(crate) fn push_life(&self, step: &Step) {
        self.0.lives.lock().push(step);
    }

    /// Keeps the span of a request.
    pub(crate) fn push_request(&self, step: &Step) {
        self.0.requests.lock().push(step);
    }

    /// Keeps a span of work below a request.
    pub(crate) fn push_work(&self, span: Arc<SpanData>) {
        self.0.requests.lock().push_work(span);
    }

    /// Returns the spans of a trace: those of a life by their end, then those of requests by theirs.
    #[must_use]
    pub fn trace(&self, trace: TraceId) -> Vec<Arc<SpanData>> {
        self.find(|of| of == trace)
    }

    /// Returns the spans of some traces: those of lives by their end, then those of requests by theirs.
    #[must_use]
    pub fn traces(&self, traces: &HashSet<TraceId>) -> Vec<Arc<SpanData>> {
        self.find(|of| traces.contains(&of))
    }

    /// Returns all spans: those of lives by their end, then those of requests by theirs.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<SpanData>> {
        self.find(|_| true)
    }

    /// The ring's lock is held for [`CHUNK`] spans at a time, of which those that are found are copied and expanded later: work that ends spans is not held up by a search. Spans that end during the
    /// search are not looked at.
    fn find(&self, fits: impl Fn(TraceId) -> bool) -> Vec<Arc<SpanData>> {
        let mut found = Vec::new();
        for part in [&self.0.lives, &self.0.requests] {
            let (mut next, end) = (0, part.lock().log.end());
            while next < end {
                let (after, spans) = part.lock().chunk(next, end, &fits);
                next = after;
                found.extend(spans.into_iter().filter_map(Found::expand));
            }
        }
        found
    }

    /// Returns the estimated bytes of the spans of lives and of requests.
    #[must_use]
    pub fn bytes(&self) -> (usize, usize) {
        (self.0.lives.lock().bytes, self.0.requests.lock().bytes)
    }

    /// Returns the number of spans that were evicted.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.0.lives.lock().log.first() + self.0.requests.lock().log.first()
    }
}

impl Part {
    /// Looks at a chunk of the spans from a place on, or from the first one that is kept, before `end`. Returns the place after the chunk, and the spans that fit.
    fn chunk(&self, from: u64, end: u64, fits: impl Fn(TraceId) -> bool) -> (u64, Vec<Found>) {
        let first = from.max(self.log.first());
        let after = first.saturating_add(CHUNK).min(end).max(first);
        let find = |(base, record): (u64, &[u8])| {
            if !fits(record::trace(record)) {
                return None;
            }
            match record::work(record) {
                Some(number) => self.work(number).map(|span| Found::Work(Arc::clone(span))),
                None => Some(Found::Step(base, record.to_vec())),
            }
        };
        (after, self.log.range(first, after).filter_map(find).collect())
    }

    fn push(&mut self, step: &Step) {
        self.bytes +=
            self.log.push(record::size(step), || record::base(step), |base, to| record::write(step, base, to));
        self.evict();
    }

    fn push_work(&mut self, span: Arc<SpanData>) {
        let (trace, number) = (span.span_context.trace_id(), self.first_work + self.work.len() as u64);
        self.bytes += limits::bytes(&span);
        let began = span.start_time;
        self.work.push_back(span);
        let base = || record::since_epoch(began);
        self.bytes += self.log.push(record::WORK_BYTES, base, |_, to| record::write_work(trace, number, to));
        self.evict();
    }

    /// Returns the span of work with a number.
    fn work(&self, number: u64) -> Option<&Arc<SpanData>> {
        self.work.get(usize::try_from(number.checked_sub(self.first_work)?).ok()?)
    }

    fn evict(&mut self) {
        while self.bytes > self.limit {
            let mut work = None;
            let Some(taken) = self.log.pop(|record| work = record::work(record)) else { return };
            self.bytes -= taken;
            if work.is_some()
                && let Some(span) = self.work.pop_front()
            {
                self.bytes -= limits::bytes(&span);
                self.first_work += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use opentelemetry::trace::{SpanContext, TraceState};

    use super::super::change::{self, Change};
    use super::super::ratio::Ratio;
    use super::super::subject::Subject;
    use super::*;

    /// A span of a trace with an id of its own.
    fn span(trace: u128, id: u64) -> Step {
        let step = Step::of(&Change::new(&format!("{trace:032x}"), 1), "test").named(id.into());
        step.began(SystemTime::UNIX_EPOCH).ended(SystemTime::UNIX_EPOCH).text("key", "value")
    }

    /// Returns the bytes that one of these spans takes.
    fn one() -> usize {
        let ring = Ring::new(0, 1000);
        ring.push_request(&span(1, 1));
        ring.bytes().1
    }

    fn ids(spans: &[Arc<SpanData>]) -> Vec<u64> {
        spans.iter().map(|span| u64::from_be_bytes(span.span_context.span_id().to_bytes())).collect()
    }

    #[test]
    fn the_spans_that_ended_first_go_when_the_bytes_are_used_up() {
        let one = one();
        let ring = Ring::new(0, 10 * one);
        for id in 1..=25 {
            ring.push_request(&span(1, id));
        }
        assert_eq!(ids(&ring.trace(1.into())), (16..=25).collect::<Vec<_>>());
        assert_eq!((ring.bytes(), ring.evicted()), ((0, 10 * one), 15));
    }

    #[test]
    fn no_number_of_requests_displaces_a_life() {
        let ring = Ring::new(1 << 20, 10_000);
        ring.push_life(&span(7, 1));
        for id in 1..10_000 {
            ring.push_request(&span(8, id));
        }
        assert_eq!(ids(&ring.trace(7.into())), [1]);
        assert!(ring.bytes().1 <= 10_000);
    }

    #[test]
    fn a_search_finds_what_was_there_when_it_began() {
        let ring = Ring::new(1 << 24, 1 << 24);
        let count = 2 * CHUNK + 5;
        for id in 1..=count {
            ring.push_request(&span(u128::from(id % 2) + 1, id));
        }
        let odd: Vec<u64> = (1..=count).filter(|id| id % 2 == 1).collect();
        assert_eq!(ids(&ring.trace(2.into())), odd);
        assert_eq!(ring.all().len() as u64, count);
        let end = ring.0.requests.lock().log.end();
        ring.push_request(&span(2, 1));
        let (after, found) = ring.0.requests.lock().chunk(2 * CHUNK, end, |_| true);
        assert_eq!((after, found.len()), (count, 5));
    }

    #[test]
    fn a_search_goes_on_behind_spans_that_are_evicted_meanwhile() {
        let one = one();
        let ring = Ring::new(0, 10 * one);
        for id in 1..=25 {
            ring.push_request(&span(1, id));
        }
        // The search began before the first fifteen were evicted, and some later ones have come since.
        let (after, found) = ring.0.requests.lock().chunk(0, 20, |_| true);
        assert_eq!((after, found.len()), (20, 5));
        let (after, found) = ring.0.requests.lock().chunk(0, 12, |_| true);
        assert_eq!((after, found.len()), (15, 0));
    }

    #[test]
    fn what_the_ring_returns_is_what_was_recorded() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_millis(seconds);
        let change = Change::new("6d0a3c52-9e1f-4b7a-8c55-0123456789ab", 2);
        let ring = Ring::new(1 << 20, 1 << 20);
        let root = Step::root(&change, "pod create").began(at(5)).ended(at(9)).failed("removed");
        let step =
            Step::of(&change, "bind").began(at(6)).ended(at(6)).attribute("n", -3).linked("owner", root.context());
        for step in [&root, &step] {
            ring.push_life(step);
        }
        let client = change.sampled(Ratio::ALL);
        let context = SpanContext::new(9.into(), 8.into(), client.trace_flags(), false, TraceState::NONE);
        let request = Step::request(context, Some(&client), "GET /").began(at(7)).ended(at(8));
        ring.push_request(&request);
        let expected = [&root, &step, &request].map(|step| format!("{:?}", step.finish()));
        assert_eq!(ring.all().iter().map(|span| format!("{span:?}")).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn work_below_requests_is_found_and_evicted_in_the_order_of_its_end() {
        let work = |id| Arc::new(span(1, id).finish());
        let taken = {
            let ring = Ring::new(0, 1 << 20);
            ring.push_work(work(1));
            ring.bytes().1
        };
        let ring = Ring::new(0, 2 * taken + one());
        ring.push_work(work(1));
        ring.push_request(&span(1, 2));
        ring.push_work(work(3));
        assert_eq!(ids(&ring.all()), [1, 2, 3]);
        ring.push_work(work(4));
        ring.push_work(work(5));
        assert_eq!((ids(&ring.all()), ring.bytes().1, ring.evicted()), (vec![4, 5], 2 * taken, 3));
        assert_eq!(ring.0.requests.lock().work.len(), 2);
    }

    #[test]
    fn the_spans_of_a_create_take_few_bytes() {
        const CREATES: u64 = 500;
        let ring = Ring::new(1 << 20, 1 << 20);
        for number in 1..=CREATES {
            let uid = format!("6d0a3c52-9e1f-4b7a-8c55-{number:012x}");
            let name = "web-5d9c7b8f4-x2k9q";
            let subject = Subject { kind: "Pod", namespace: "default", name, uid: &uid, generation: 1 };
            let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + Duration::from_millis(number);
            let served = change::roots(u128::from(number).into())(0);
            let served =
                SpanContext::new(u128::from(number).into(), served, Default::default(), false, TraceState::NONE);
            let commit = subject.step("commit").linked("request", &served);
            ring.push_life(&commit.began(began).ended(began + Duration::from_micros(700)));
            let request = Step::request(served, None, "POST /api/v1/namespaces/{namespace}/pods".to_owned())
                .began(began)
                .ended(began + Duration::from_millis(1))
                .word("oarlock.user.class", "masters")
                .linked("change", &subject.change().context())
                .attribute("http.response.status_code", 201);
            ring.push_request(&request);
        }
        let (lives, requests) = ring.bytes();
        let [life, request] = [lives, requests].map(|bytes| bytes as u64 / CREATES);
        assert!(life <= 88 && request <= 60, "{life} and {request} bytes");
    }
}

//! The ring of ended spans: memory of the process for `oarlock trace`.

use std::collections::{HashSet, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use opentelemetry::trace::TraceId;
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;

use super::limits;
use super::record::Record;

/// The most spans that are looked at under one hold of the lock, and for which room is made at a time.
const CHUNK: usize = 1024;

/// A bounded store of ended spans; clones are the same store. Spans of lives and spans of requests have a bound each, so that no number of requests displaces the life of an object. When a bound
/// is reached, the spans that ended first are evicted.
#[derive(Clone, Debug)]
pub struct Ring(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    lives: Mutex<Part>,
    requests: Mutex<Part>,
}

#[derive(Debug)]
struct Part {
    spans: VecDeque<Kept>,
    bytes: usize,
    limit: usize,
    evicted: u64,
}

/// A span in the ring.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// A step of a life, or a request.
    Step(Record),
    /// Work below a request, as the SDK has recorded it.
    Span(Arc<SpanData>),
}

impl Kept {
    fn trace(&self) -> TraceId {
        match self {
            Self::Step(record) => record.trace(),
            Self::Span(span) => span.span_context.trace_id(),
        }
    }

    /// Estimates the bytes that the span takes.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Step(record) => record.bytes(),
                Self::Span(span) => limits::bytes(span),
            }
    }

    fn expand(self) -> Arc<SpanData> {
        match self {
            Self::Step(record) => Arc::new(record.expand()),
            Self::Span(span) => span,
        }
    }
}

impl Ring {
    /// Creates a ring with so many bytes for the spans of lives and of requests.
    #[must_use]
    pub fn new(lives: usize, requests: usize) -> Self {
        let part = |limit| Mutex::new(Part { spans: VecDeque::new(), bytes: 0, limit, evicted: 0 });
        Self(Arc::new(Parts { lives: part(lives), requests: part(requests) }))
    }

    /// Keeps a step of a life.
    pub(crate) fn push_life(&self, record: Record) {
        self.0.lives.lock().push(Kept::Step(record));
    }

    /// Keeps the span of a request or of work below one.
    pub(crate) fn push_request(&self, span: Kept) {
        self.0.requests.lock().push(span);
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
            let (mut next, end) = (0, part.lock().end());
            while next < end {
                let (after, spans) = part.lock().chunk(next, end, &fits);
                next = after;
                found.extend(spans.into_iter().map(Kept::expand));
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
        self.0.lives.lock().evicted + self.0.requests.lock().evicted
    }
}

impl Part {
    /// Returns the number of spans that have ended so far: the place of the next one.
    fn end(&self) -> u64 {
        self.evicted + self.spans.len() as u64
    }

    /// Looks at a chunk of the spans from a place on, or from the first one that is kept, before `end`. Returns the place after the chunk, and the spans that fit.
    fn chunk(&self, from: u64, end: u64, fits: impl Fn(TraceId) -> bool) -> (u64, Vec<Kept>) {
        let first = from.max(self.evicted);
        let after = first.saturating_add(CHUNK as u64).min(end).max(first);
        let place = |of: u64| usize::try_from(of - self.evicted).unwrap_or(usize::MAX).min(self.spans.len());
        let spans = self.spans.range(place(first)..place(after)).filter(|span| fits(span.trace())).cloned();
        (after, spans.collect())
    }

    fn push(&mut self, span: Kept) {
        if self.spans.len() == self.spans.capacity() {
            // Memory for a chunk at a time: doubling would reserve up to half of it for nothing.
            self.spans.reserve_exact(CHUNK);
        }
        self.bytes += span.bytes();
        self.spans.push_back(span);
        while self.bytes > self.limit
            && let Some(first) = self.spans.pop_front()
        {
            self.bytes -= first.bytes();
            self.evicted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::super::step::Step;
    use super::*;

    /// A span of a trace with an id of its own.
    fn span(trace: u128, id: u64) -> Kept {
        let step = Step::of(&Change::new(&format!("{trace:032x}"), 1), "test").named(id.into());
        Kept::Step(step.text("key", "value").into())
    }

    fn ids(spans: &[Arc<SpanData>]) -> Vec<u64> {
        spans.iter().map(|span| u64::from_be_bytes(span.span_context.span_id().to_bytes())).collect()
    }

    #[test]
    fn the_spans_that_ended_first_go_when_the_bytes_are_used_up() {
        let one = span(1, 1).bytes();
        let ring = Ring::new(0, 10 * one);
        for id in 1..=25 {
            ring.push_request(span(1, id));
        }
        assert_eq!(ids(&ring.trace(1.into())), (16..=25).collect::<Vec<_>>());
        assert_eq!((ring.bytes(), ring.evicted()), ((0, 10 * one), 15));
    }

    #[test]
    fn no_number_of_requests_displaces_a_life() {
        let ring = Ring::new(1 << 20, 10_000);
        let Kept::Step(life) = span(7, 1) else { panic!("a step") };
        ring.push_life(life);
        for id in 1..10_000 {
            ring.push_request(span(8, id));
        }
        assert_eq!(ids(&ring.trace(7.into())), [1]);
        assert!(ring.bytes().1 <= 10_000);
    }

    #[test]
    fn a_search_finds_what_was_there_when_it_began() {
        let ring = Ring::new(1 << 24, 1 << 24);
        let count = 2 * CHUNK as u64 + 5;
        for id in 1..=count {
            ring.push_request(span(u128::from(id % 2) + 1, id));
        }
        let odd: Vec<u64> = (1..=count).filter(|id| id % 2 == 1).collect();
        assert_eq!(ids(&ring.trace(2.into())), odd);
        assert_eq!(ring.all().len() as u64, count);
        let end = ring.0.requests.lock().end();
        ring.push_request(span(2, 1));
        let (after, found) = ring.0.requests.lock().chunk(2 * CHUNK as u64, end, |_| true);
        assert_eq!((after, found.len()), (count, 5));
    }

    #[test]
    fn a_search_goes_on_behind_spans_that_are_evicted_meanwhile() {
        let one = span(1, 1).bytes();
        let ring = Ring::new(0, 10 * one);
        for id in 1..=25 {
            ring.push_request(span(1, id));
        }
        // The search began before the first fifteen were evicted, and some later ones have come since.
        let (after, found) = ring.0.requests.lock().chunk(0, 20, |_| true);
        assert_eq!((after, found.len()), (20, 5));
        let (after, found) = ring.0.requests.lock().chunk(0, 12, |_| true);
        assert_eq!((after, found.len()), (15, 0));
    }
}
